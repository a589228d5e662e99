#include "launcher/console/output_loss.h"

namespace dlaunch::launcher {
namespace {

std::string part(const agent::Dropped& dropped, const char* stream) {
  return describe(dropped) + " of " + stream;
}

}  // namespace

std::string why_dropped(bool hurried, Duration patience) {
  if (hurried) return "a signal ended dlaunch at once";
  return "its reader took nothing for " + to_words(patience) + " (--output-timeout)";
}

std::string describe_gaps(const agent::Dropped& lost, int files, const std::string& log_dir) {
  if (files == 0) return "";
  return "the log files in " + log_dir + " have gaps: " + describe(lost) + " could not be written, in " +
         std::to_string(files) + (files == 1 ? " file" : " files");
}

std::string describe(const DroppedOutput& dropped, const std::string& why, const std::string& log_dir) {
  std::string text;
  if (dropped.out.bytes > 0) text = part(dropped.out, "standard output");
  if (dropped.err.bytes > 0) text += (text.empty() ? "" : " and ") + part(dropped.err, "standard error");
  if (text.empty()) return "";
  return "dropped " + text + ": " + why +
         (log_dir.empty() ? "" : "; the log files in " + log_dir + " are complete");
}

}  // namespace dlaunch::launcher
