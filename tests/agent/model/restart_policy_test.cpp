#include "agent/model/restart_policy.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

Restart entry(int at, int lasted, int code = 1, const std::string& host = "a") {
  Restart restart;
  restart.after = seconds(at);
  restart.lasted = seconds(lasted);
  restart.cause.kind = FailureKind::worker;
  restart.cause.host = host;
  restart.cause.status = {ExitStatus::How::exited, code, false};
  return restart;
}

Restart loss(int at) {
  Restart restart = entry(at, 1);
  restart.cause.kind = FailureKind::node_lost;
  restart.counted = false;
  return restart;
}

TEST(RestartPolicy, MaxRestartsIsTheLimit) {
  EXPECT_TRUE(decide_restart({}, 2, 1, {}, entry(1, 1)).restarts);
  EXPECT_FALSE(decide_restart({}, 2, 2, {}, entry(1, 1)).restarts);
  EXPECT_EQ(decide_restart({}, 2, 2, {}, entry(1, 1)).why_not, "") << "that is told anyway";
  EXPECT_TRUE(decide_restart({}, 0, 0, {}, loss(1)).restarts) << "a loss is no failure";
}

TEST(RestartPolicy, SomeExitCodesAreFinal) {
  RestartPolicy policy;
  policy.final_codes = {64, 2};
  EXPECT_TRUE(decide_restart(policy, 9, 0, {}, entry(1, 1, 3)).restarts);
  EXPECT_FALSE(decide_restart(policy, 9, 0, {}, entry(1, 1, 2)).restarts);
  EXPECT_EQ(decide_restart(policy, 9, 0, {}, entry(1, 1, 64)).why_not,
            "exit code 64 is final (--no-restart-on)");
}

TEST(RestartPolicy, StartFailureIsNotRestarted) {
  RestartPolicy policy;
  policy.startup_grace = seconds(60);
  EXPECT_EQ(decide_restart(policy, 9, 0, {}, entry(59, 59)).why_not,
            "it failed within 1 min 0 s of the job's start (--startup-grace)");
  EXPECT_TRUE(decide_restart(policy, 9, 0, {}, entry(60, 60)).restarts);
  EXPECT_TRUE(decide_restart(policy, 9, 0, {}, loss(1)).restarts)
      << "a node that is lost is not the program's fault";
  EXPECT_EQ(decide_restart(policy, 0, 0, {}, entry(1, 1)).why_not, "") << "there was no restart to be had";
}

TEST(RestartPolicy, ABurstIsTooMany) {
  RestartPolicy policy;
  policy.burst = 2;
  policy.window = seconds(100);
  const std::vector<Restart> history{entry(10, 10), loss(50), entry(60, 40)};
  EXPECT_FALSE(decide_restart(policy, 9, 2, history, entry(109, 20)).restarts);
  EXPECT_EQ(decide_restart(policy, 9, 2, history, entry(109, 20)).why_not,
            "there were 2 restarts within 1 min 40 s (--restart-limit)");
  EXPECT_TRUE(decide_restart(policy, 9, 2, history, entry(110, 20)).restarts) << "the first is long ago";
}

TEST(RestartPolicy, QuickFailuresInARowAreBackedOff) {
  RestartPolicy policy;
  policy.first_delay = seconds(1);
  policy.longest_delay = seconds(3);
  std::vector<Restart> history;
  std::vector<Duration> delays;
  for (int i = 0; i < 5; ++i) {
    const Restart next = entry(i, 1);
    delays.push_back(decide_restart(policy, 99, i, history, next).delay);
    remember(history, next);
  }
  EXPECT_EQ(delays, (std::vector<Duration>{Duration(0), seconds(1), seconds(2), seconds(3), seconds(3)}));
  EXPECT_EQ(decide_restart(policy, 99, 5, history, entry(60, 50)).delay, Duration(0))
      << "it had run for a while";
  remember(history, entry(60, 50));
  EXPECT_EQ(decide_restart(policy, 99, 6, history, entry(61, 1)).delay, Duration(0))
      << "the first after that";
  EXPECT_EQ(decide_restart({}, 99, 2, {entry(1, 1), entry(2, 1)}, entry(3, 1)).delay, Duration(0))
      << "nobody asked for it";
}

TEST(RestartPolicy, FailuresOfAHostAreCounted) {
  EXPECT_EQ(failures_of("b", {entry(1, 1, 1, "a"), entry(2, 1, 1, "b"), entry(3, 1, 1, "b")}), 2);
}

TEST(RestartPolicy, TheHistoryDropsTheOldest) {
  std::vector<Restart> history;
  for (int i = 0; i < 100; ++i) remember(history, entry(i, 1));
  ASSERT_EQ(history.size(), static_cast<std::size_t>(Outcome::max_restarts));
  EXPECT_EQ(history.back().after, seconds(99));
}

}  // namespace
}  // namespace dlaunch::agent
