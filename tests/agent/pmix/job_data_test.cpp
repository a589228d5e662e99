#include "agent/pmix/job_data.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

std::optional<PmixWorld> world(const std::string& text) {
  return world_of(*PmiRequest::parse("cmd=world name=job_0 " + text));
}

TEST(JobData, KnowsTheRanksOfEachNode) {
  const auto four = world("rank=3 slots=2 size=5 mapping=(vector,(0,1,3),(1,1,2)) folder=L2E=");
  ASSERT_TRUE(four);
  EXPECT_EQ(four->of_nodes, (std::vector<int>{3, 2}));
  EXPECT_EQ(four->own_node, 1U);
  EXPECT_EQ(four->size(), 5);
  EXPECT_EQ(four->folder, "/a");
  const auto many = world("rank=8 slots=4 size=12 mapping=(vector,(0,3,4)) folder=");
  ASSERT_TRUE(many);
  EXPECT_EQ(many->of_nodes, (std::vector<int>{4, 4, 4}));
  EXPECT_EQ(many->own_node, 2U);
}

// A map of so many nodes that the agent does not send it, or one that contradicts itself.
TEST(JobData, KnowsItsOwnRanksWithoutAMap) {
  for (const char* mapping : {"", "(vector,(0,2,3))", "(vector,(0,99999999,99999999))", "(vector,(0,1"}) {
    const auto middle = world(std::string("rank=2 slots=3 size=9 folder= mapping=") + mapping);
    ASSERT_TRUE(middle) << mapping;
    EXPECT_EQ(middle->of_nodes, (std::vector<int>{2, 3, 4})) << mapping;
    EXPECT_EQ(middle->own_node, 1U);
  }
  const auto all = world("rank=0 slots=3 size=3 mapping=");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->of_nodes, std::vector<int>{3});
}

TEST(JobData, AnImpossibleWorldIsRejected) {
  for (const char* text : {"", "rank=0 slots=3 size=2", "rank=-1 slots=1 size=2", "rank=0 slots=0 size=2",
                           "rank=1 slots=1 size=1", "rank=0 slots=1 size=99999999"})
    EXPECT_FALSE(world(text)) << text;
}

// As PMIx would hand it to a rank: the job's facts, then one entry a rank.
TEST(JobData, HasAnEntryForEachRank) {
  const auto four = world("rank=3 slots=2 size=5 mapping=(vector,(0,1,3),(1,1,2)) folder=L2E=");
  JobData data(*four);
  int ranks = 0;
  std::uint32_t size = 0;
  std::uint32_t here = 0;
  std::string peers;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const pmix_info_t& info = data.data()[i];
    if (PMIX_CHECK_KEY(&info, PMIX_PROC_INFO_ARRAY)) ++ranks;
    if (PMIX_CHECK_KEY(&info, PMIX_LOCAL_PEERS)) peers = info.value.data.string;
    if (PMIX_CHECK_KEY(&info, PMIX_JOB_SIZE)) size = info.value.data.uint32;
    if (PMIX_CHECK_KEY(&info, PMIX_LOCAL_SIZE)) here = info.value.data.uint32;
  }
  EXPECT_EQ(ranks, 5);
  EXPECT_EQ(size, 5U);
  EXPECT_EQ(here, 2U);
  EXPECT_EQ(peers, "3,4");
}

}  // namespace
}  // namespace dlaunch::agent
