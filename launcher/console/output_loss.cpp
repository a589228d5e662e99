#include "launcher/console/output_loss.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace dlaunch::launcher {
namespace {

// Passed on, unless --signals-to-handle makes them stop the job.
constexpr std::array passed_signals{SIGUSR1, SIGUSR2};

// nohup has set it, and means it.
bool is_ignored_hangup(int signo) {
  struct sigaction before {};
  sigaction(signo, nullptr, &before);
  return before.sa_handler == SIG_IGN && signo == SIGHUP;
}

std::string part(const agent::Dropped& dropped, const char* stream) {
  return describe(dropped) + " of " + stream;
}

}  // namespace

bool StopSignals::contains(int signo) const {
  return std::find(signals_.begin(), signals_.end(), signo) != signals_.end();
}

void StopSignals::watch(agent::UvPoller& poller, const std::function<void(int)>& stop,
                        const std::function<void(int)>& pass) const {
  for (const int signo : signals_) {
    if (!is_ignored_hangup(signo)) poller.on_signal(signo, stop);
  }
  for (const int signo : passed_signals) {
    if (!contains(signo)) poller.on_signal(signo, pass);
  }
}

void StopSignals::on_signal(int signo) {
  if (!contains(signo)) return;
  ++count_;
  interrupted_ = interrupted_ || signo == SIGINT || signo == SIGQUIT;
}

void StopSignals::block() const {
  sigset_t set;
  sigemptyset(&set);
  for (const int signo : signals_) sigaddset(&set, signo);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

bool StopSignals::end_at_once() const {
  if (killed()) return true;
  sigset_t pending;
  sigpending(&pending);
  return std::any_of(signals_.begin(), signals_.end(),
                     [&](int signo) { return sigismember(&pending, signo) == 1; });
}

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
