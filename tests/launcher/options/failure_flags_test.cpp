#include "launcher/options/failure_flags.h"

#include <csignal>

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Flags, ASignalMayHaveAGraceTimeOfItsOwn) {
  const agent::StopGrace after_others = good({"--stop-timeout=INT@5", "x"}).job.stop_timeout;
  EXPECT_EQ(after_others, (agent::StopGrace{std::chrono::seconds(30), {{SIGINT, std::chrono::seconds(5)}}}));
  const agent::StopGrace several = good({"--stop-timeout=7,INT@5,SIGUSR1@0.5", "x"}).job.stop_timeout;
  EXPECT_EQ(several, (agent::StopGrace{
                         std::chrono::seconds(7),
                         {{SIGINT, std::chrono::seconds(5)}, {SIGUSR1, std::chrono::milliseconds(500)}}}));
}

TEST(Options, SignalsAreNamedAsTorchrunKillOrSlurmNameThem) {
  EXPECT_EQ(good({"--signals-to-handle=TERM,SIGWINCH,CONT", "x"}).node.stop_signals,
            (std::vector<int>{SIGTERM, SIGWINCH, SIGCONT}));
  EXPECT_EQ(good({"--preempt-signal=USR1@5", "x"}).node.preempt_signal, SIGUSR1);
  const Options options = good({"--signals-to-handle=SIGTREM,SIGKILL,SIGINT", "x"});
  EXPECT_EQ(options.node.stop_signals, std::vector<int>{SIGINT})
      << "unknown ones are only said, as by torchrun";
  ASSERT_EQ(options.warnings.size(), 2U);
  EXPECT_NE(options.warnings[0].find("'SIGTREM' is not one of"), std::string::npos);
  EXPECT_NE(options.warnings[0].find("did you mean SIGTERM?; it is ignored"), std::string::npos);
  EXPECT_EQ(options.warnings[1],
            "--signals-to-handle: SIGKILL cannot be caught or passed on; name another signal, "
            "such as SIGTERM; it is ignored");
}

TEST(FailureFlags, AGraceTimeWithoutASignalIsForAllOthers) {
  EXPECT_EQ(good({"--stop-timeout=0", "x"}).job.stop_timeout.usual, Duration(0));
  EXPECT_EQ(bad({"--stop-timeout=USR3@1", "x"}).find("--stop-timeout: 'SIGUSR3' is not one of"), 0U);
}

TEST(FailureFlags, ARestartsDelayNeverShrinks) {
  const auto backoff = [](const std::string& text) {
    return good({"--restart-backoff=" + text, "x"}).job.policy;
  };
  EXPECT_EQ(backoff("2:8").longest_delay, std::chrono::seconds(8));
  EXPECT_EQ(backoff("90:8").longest_delay, std::chrono::seconds(90));
  EXPECT_GE(backoff("900").longest_delay, std::chrono::seconds(900));
}

TEST(FailureFlags, EveryFinalCodeIsAnExitCode) {
  EXPECT_EQ(good({"--no-restart-on=1,255", "x"}).job.policy.final_codes, (std::vector{1, 255}));
  EXPECT_EQ(bad({"--no-restart-on=1,256", "x"}),
            "--no-restart-on: 256 is out of range; give a value from 1 to 255");
}

}  // namespace
}  // namespace dlaunch::launcher
