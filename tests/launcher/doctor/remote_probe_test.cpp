#include "launcher/doctor/remote_probe.h"

#include <gtest/gtest.h>

#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

TimePoint soon() { return steady_now() + std::chrono::seconds(60); }

TEST(RemoteProbe, OnlyMarkedLinesCount) {
  RemoteProbe probe;
  ASSERT_TRUE(probe.start(
      {"/bin/sh"}, "echo welcome; echo 'dlaunch-doctor: one'; printf 'dlaunch-'; echo 'doctor: two'\n"));
  RemoteProbe::await_lines({&probe}, soon());
  EXPECT_EQ(probe.take_line(), "one");
  RemoteProbe::await_lines({&probe}, soon());
  EXPECT_EQ(probe.take_line(), "two");
  EXPECT_EQ(probe.take_line(), std::nullopt);
  probe.end_input();
  RemoteProbe::await_ends({&probe}, soon());
  EXPECT_EQ(probe.ended(), (agent::ExitStatus{agent::ExitStatus::How::exited, 0}));
}

TEST(RemoteProbe, OrdersAreAnswered) {
  RemoteProbe probe;
  ASSERT_TRUE(
      probe.start({"/bin/sh"}, "echo 'dlaunch-doctor: ready'; exec sed -u 's/^/dlaunch-doctor: /'\n"));
  RemoteProbe::await_lines({&probe}, soon());
  EXPECT_EQ(probe.take_line(), "ready");
  EXPECT_TRUE(probe.send("order\n"));
  RemoteProbe::await_lines({&probe}, soon());
  EXPECT_EQ(probe.take_line(), "order");
}

TEST(RemoteProbe, AnEndEndsTheWait) {
  RemoteProbe ends;
  ASSERT_TRUE(ends.start({"/bin/sh"}, "echo why >&2; exit 3\n"));
  RemoteProbe::await_lines({&ends}, soon());
  EXPECT_EQ(ends.ended(), (agent::ExitStatus{agent::ExitStatus::How::exited, 3}));
  EXPECT_EQ(ends.stderr_tail(), "why");
  EXPECT_EQ(ends.take_line(), std::nullopt);
}

TEST(RemoteProbe, TheWaitEndsAtItsDeadline) {
  RemoteProbe silent;
  ASSERT_TRUE(silent.start({"/bin/sh"}, "exec sleep 1000\n"));
  RemoteProbe::await_lines({&silent}, steady_now());
  EXPECT_FALSE(silent.ended());
  EXPECT_EQ(silent.take_line(), std::nullopt);
}

TEST(RemoteProbe, AProgramThatIsNotThere) {
  RemoteProbe probe;
  EXPECT_FALSE(probe.start({"/no/such/program"}, ""));
}

}  // namespace
}  // namespace dlaunch::launcher
