#include "launcher/console/stop_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "store/loop/uv_loop.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {
namespace {

// Ends the loop if a signal does not arrive.
struct Deadline final : TimerHandler {
  explicit Deadline(UvLoop& running) : loop(running) {
    loop.arm(loop.now() + std::chrono::minutes(1), *this);
  }
  void on_timer(TimerId) override { loop.stop(); }
  UvLoop& loop;
};

// The signals that `watched` reports as stopping and as passed on, when the process gets `sent`. The last one
// of them must be reported.
struct Reported {
  std::vector<int> stop;
  std::vector<int> pass;
};
Reported reported(const StopSignals& watched, const std::vector<int>& sent) {
  UvLoop loop;
  UvPoller poller(loop);
  Deadline deadline(loop);
  Reported reported;
  const auto note = [&](std::vector<int>& into, int signo) {
    into.push_back(signo);
    if (signo == sent.back()) loop.stop();
  };
  watched.watch(
      poller, [&](int signo) { note(reported.stop, signo); }, [&](int signo) { note(reported.pass, signo); });
  for (const int signo : sent) kill(getpid(), signo);
  loop.run();
  return reported;
}

TEST(StopSignals, ASecondInterruptKillsTheWorkers) {
  StopSignals signals({SIGINT, SIGTERM});
  signals.on_signal(SIGINT);
  EXPECT_FALSE(signals.killed());
  signals.on_signal(SIGUSR1);
  EXPECT_FALSE(signals.killed()) << "it does not stop the job";
  signals.on_signal(SIGTERM);
  EXPECT_TRUE(signals.killed());
}

TEST(StopSignals, TwoTerminationsDoNotKillTheWorkers) {
  StopSignals signals({SIGINT, SIGTERM});
  signals.on_signal(SIGTERM);
  signals.on_signal(SIGTERM);
  EXPECT_FALSE(signals.killed());
}

TEST(StopSignals, UserSignalsArePassedOn) {
  const Reported got = reported(StopSignals({SIGTERM}), {SIGUSR1, SIGTERM, SIGUSR2});
  EXPECT_EQ(got.stop, std::vector{SIGTERM});
  EXPECT_EQ(got.pass, (std::vector{SIGUSR1, SIGUSR2}));
}

TEST(StopSignals, AUserSignalThatStopsTheJobIsNotPassedOn) {
  const Reported got = reported(StopSignals({SIGTERM, SIGUSR1}), {SIGUSR1, SIGTERM});
  EXPECT_EQ(got.stop, (std::vector{SIGUSR1, SIGTERM}));
  EXPECT_TRUE(got.pass.empty());
}

TEST(StopSignals, AnIgnoredHangupStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  const Reported got = reported(StopSignals({SIGHUP, SIGTERM}), {SIGHUP, SIGTERM});
  EXPECT_EQ(got.stop, std::vector{SIGTERM});
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignals, AHangupStopsTheJob) {
  EXPECT_EQ(reported(StopSignals({SIGHUP}), {SIGHUP}).stop, std::vector{SIGHUP});
}

TEST(StopSignals, AnIgnoredInterruptStopsTheJobAllTheSame) {
  std::signal(SIGINT, SIG_IGN);  // as a shell starts a program in the background
  EXPECT_EQ(reported(StopSignals({SIGINT}), {SIGINT}).stop, std::vector{SIGINT});
  std::signal(SIGINT, SIG_DFL);
}

TEST(StopSignals, ABlockedSignalEndsDlaunchAtOnce) {
  const StopSignals signals({SIGTERM});
  signals.block();
  EXPECT_FALSE(signals.end_at_once());
  kill(getpid(), SIGTERM);
  EXPECT_TRUE(signals.end_at_once());
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  int taken = 0;
  ASSERT_EQ(sigwait(&set, &taken), 0);
  EXPECT_FALSE(signals.end_at_once()) << "nothing is pending any more";
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

TEST(StopSignals, KilledWorkersEndDlaunchAtOnce) {
  StopSignals signals({SIGINT});
  signals.on_signal(SIGINT);
  signals.on_signal(SIGINT);
  EXPECT_TRUE(signals.end_at_once());
}

}  // namespace
}  // namespace dlaunch::launcher
