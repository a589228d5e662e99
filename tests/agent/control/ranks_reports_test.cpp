#include "agent/control/ranks_reports.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RanksReports, AreRequestedNoMoreOftenHoweverManyLook) {
  RanksReports reports;
  TimePoint now{seconds(1)};
  EXPECT_TRUE(reports.may_request(now, -1));
  EXPECT_FALSE(reports.may_request(now + milliseconds(499), -1));
  EXPECT_TRUE(reports.may_request(now + milliseconds(500), -1));
  EXPECT_TRUE(reports.may_request(now + milliseconds(501), 3)) << "of this rank the lines are not there";
  EXPECT_FALSE(reports.may_request(now + milliseconds(502), 3));
}

TEST(RanksReports, TheLatestOfEachNodeByNodeRank) {
  RanksReports reports;
  NodeRanks node;
  node.node_rank = 1;
  reports.take(7, node);
  node.node_rank = 0;
  reports.take(9, node);
  node.round = 4;
  reports.take(9, node);
  ASSERT_EQ(reports.nodes().size(), 2U);
  EXPECT_EQ(reports.nodes()[0], node);
  reports.forget(9);
  ASSERT_EQ(reports.nodes().size(), 1U);
  EXPECT_EQ(reports.nodes()[0].node_rank, 1);
}

}  // namespace
}  // namespace dlaunch::agent
