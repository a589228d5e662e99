// The loop itself: it runs, stops, and keeps its timers.

#include "store/loop/uv_loop.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <system_error>
#include <thread>

#include "tests/store/loop/uv_loop_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST_F(UvLoopTest, RunsOnlyWhileSomethingCanHappen) { loop.run(); }

TEST_F(UvLoopTest, StopBeforeRunIsKept) {
  listen();
  loop.stop();
  loop.run();
}

TEST_F(UvLoopTest, TimersRingInOrderAndNotEarly) {
  std::string order;
  std::map<char, Alarm> alarms;
  const TimePoint start = loop.now();
  const auto set = [&](char name, Duration after) {
    alarms[name].rings = [&, name, after] {
      order += name;
      EXPECT_GE(loop.now(), start + after);
      if (name == 'c') loop.stop();
    };
    return loop.arm(start + after, alarms[name]);
  };
  set('c', 30ms);
  set('b', 10ms);
  const TimerId never = set('x', 15ms);
  set('a', -1s);
  loop.disarm(never);
  loop.disarm(never);
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST_F(UvLoopTest, ADisarmedTimersIdIsNotTheNextOnes) {
  Alarm other;
  other.rings = [&] { loop.stop(); };
  const TimerId first = loop.arm(loop.now() + 1h, alarm);
  loop.disarm(first);
  loop.arm(loop.now() + 1ms, other);
  loop.disarm(first);
  loop.run();
}

TEST_F(UvLoopTest, TheClockStandsStillDuringAnEvent) {
  alarm.rings = [&] {
    const TimePoint before = loop.now();
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(loop.now(), before);
  };
  const TimePoint before = loop.now();
  loop.arm(before, alarm);
  loop.run();
  EXPECT_GE(loop.now(), before + 2ms);
}

TEST_F(UvLoopTest, PostRunsOnTheLoop) {
  listen();  // so that the loop has a reason to run
  std::thread::id where;
  std::thread other([&] {
    loop.post([&] {
      where = std::this_thread::get_id();
      loop.stop();
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(where, std::this_thread::get_id());
}

// In a process of its own, with a limit on open files.
int made_with(rlim_t free) {
  const pid_t pid = fork();
  if (pid == 0) {
    close_range(3, ~0U, 0);
    const rlimit few{3 + free, 3 + free};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
    try {
      UvLoop loop;
      loop.run();
      _exit(0);
    } catch (const std::system_error& e) {
      _exit(e.code().value() == EMFILE ? 1 : 3);
    }
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(UvLoopAlone, ReportsThatNoDescriptorsAreLeft) {
  int free = 0;
  while (free < 20 && made_with(static_cast<rlim_t>(free)) == 1) ++free;
  EXPECT_GT(free, 0);
  for (int more = 0; more < 3; ++more) EXPECT_EQ(made_with(static_cast<rlim_t>(free + more)), 0) << free;
}

TEST_F(UvLoopTest, GoesCleanlyWithEverythingOpen) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) {
    send(conn, pattern(4 << 20));
    if (acceptor.count == 3) loop.stop();
  };
  for (int i = 0; i < 3; ++i) connect(address);
  loop.arm(loop.now() + 1h, alarm);
  loop.run();
  connect(address);
  connect({"localhost", address.port});
}

}  // namespace
}  // namespace dlaunch::store
