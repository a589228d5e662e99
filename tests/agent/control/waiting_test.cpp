#include "agent/control/waiting.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST(WaitingTest, ReportsComeAtTheirPaceAndTheDeadlineOnce) {
  TimePoint now{seconds(100)};
  Waiting waiting(now, seconds(60));
  EXPECT_FALSE(waiting.take_report(now));
  now += Waiting::first_report;
  EXPECT_TRUE(waiting.take_report(now));
  EXPECT_FALSE(waiting.take_report(now));
  EXPECT_EQ(waiting.report_at(), now + Waiting::next_report);
  EXPECT_FALSE(waiting.is_over(now));
  EXPECT_TRUE(waiting.is_over(TimePoint(seconds(160))));
}

TEST(WaitingTest, RenewalKeepsThePaceOfTheReports) {
  const TimePoint now{seconds(100)};
  Waiting waiting(now, seconds(60));
  const TimePoint report_at = waiting.report_at();
  waiting.renew(now + seconds(4), seconds(60));
  EXPECT_EQ(waiting.since(), now + seconds(4));
  EXPECT_EQ(waiting.deadline(), now + seconds(64));
  EXPECT_EQ(waiting.report_at(), report_at);
}

}  // namespace
}  // namespace dlaunch::agent
