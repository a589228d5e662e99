#include "agent/model/stop_grace.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST(StopGrace, IsTheSignalsOwnOrTheUsual) {
  const StopGrace grace{seconds(30), {{SIGINT, seconds(60)}, {SIGQUIT, seconds(0)}}};
  EXPECT_EQ(grace.of(SIGTERM), seconds(30));
  EXPECT_EQ(grace.of(SIGINT), seconds(60));
  EXPECT_EQ(grace.longest(), seconds(60));
}

TEST(StopGrace, WithoutTimeTheSignalIsSigkill) {
  const StopGrace grace{seconds(30), {{SIGQUIT, seconds(0)}}};
  EXPECT_EQ(grace.sent_for(SIGTERM), SIGTERM);
  EXPECT_EQ(grace.sent_for(SIGQUIT), SIGKILL);
}

}  // namespace
}  // namespace dlaunch::agent
