#include "launcher/console/output_loss.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace dlaunch::launcher {
namespace {

agent::Dropped lines(const char* text) {
  agent::Dropped dropped;
  dropped.add(text);
  return dropped;
}

TEST(OutputLoss, NothingIsReportedIfNothingWasDropped) {
  EXPECT_EQ(describe(DroppedOutput{}, "why", "/logs"), "");
  EXPECT_EQ(describe_gaps({}, 0, 0, "/logs", "b"), "");
}

TEST(OutputLoss, NamesTheStreamsTheReasonAndTheLogFiles) {
  EXPECT_EQ(
      describe({lines("one\n"), {}}, why_dropped(false, std::chrono::seconds(2)), ""),
      "dropped 1 line (4 bytes) of standard output: its reader took nothing for 2 s (--output-timeout)");
  EXPECT_EQ(
      describe({lines("one\n"), lines("a\nb\n")}, why_dropped(true, std::chrono::seconds(2)), "/logs"),
      "dropped 1 line (4 bytes) of standard output and 2 lines (4 bytes) of standard error: a signal ended "
      "dlaunch at once; the log files in /logs are complete");
}

TEST(OutputLoss, GapsOfLogFilesAreCounted) {
  const std::string gaps =
      "the log files in /logs have gaps: 2 lines (4 bytes) could not be written, in 1 file on host b: ";
  const auto described = [](int why) { return describe_gaps(lines("a\nb\n"), 1, why, "/logs", "b"); };
  EXPECT_EQ(described(ENOSPC),
            gaps + "No space left on device; free space there, or choose another --log-dir");
  EXPECT_EQ(described(EFBIG), gaps + "File too large; raise the limit on the size of files (ulimit -f)");
  EXPECT_EQ(described(EIO), gaps + "Input/output error");
}

}  // namespace
}  // namespace dlaunch::launcher
