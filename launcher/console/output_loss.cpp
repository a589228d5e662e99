#include "launcher/console/output_loss.h"

#include <cerrno>
#include <cstring>

namespace dlaunch::launcher {
namespace {

std::string part(const agent::Dropped& dropped, const char* stream) {
  return describe(dropped) + " of " + stream;
}

std::string remedy_of_write(int why) {
  if (why == ENOSPC || why == EDQUOT) return "; free space there, or choose another --log-dir";
  if (why == EFBIG) return "; raise the limit on the size of files (ulimit -f)";
  return "";
}

}  // namespace

std::string why_dropped(bool hurried, Duration patience) {
  if (hurried) return "a signal ended dlaunch at once";
  return "its reader took nothing for " + to_words(patience) + " (--output-timeout)";
}

std::string describe_gaps(const agent::Dropped& lost, int files, int why, const std::string& log_dir,
                          const std::string& host) {
  if (files == 0) return "";
  return "the log files in " + log_dir + " have gaps: " + describe(lost) + " could not be written, in " +
         std::to_string(files) + (files == 1 ? " file" : " files") + " on host " + host + ": " +
         std::strerror(why) + remedy_of_write(why);
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
