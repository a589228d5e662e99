#include "launcher/console/stop_signals.h"

#include <algorithm>
#include <array>
#include <csignal>

namespace dlaunch::launcher {
namespace {

// Passed on, unless --signals-to-handle makes them stop the job.
constexpr std::array passed_signals{SIGUSR1, SIGUSR2};

// As nohup sets it.
bool is_ignored_hangup(int signo) {
  struct sigaction before {};
  sigaction(signo, nullptr, &before);
  return before.sa_handler == SIG_IGN && signo == SIGHUP;
}

}  // namespace

bool StopSignals::contains(int signo) const {
  return std::find(signals_.begin(), signals_.end(), signo) != signals_.end();
}

void StopSignals::watch(UvPoller& poller, const std::function<void(int)>& stop,
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

}  // namespace dlaunch::launcher
