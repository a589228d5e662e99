// The signals that stop a job, as this process receives them.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// Not thread-safe.
class StopSignals {
 public:
  explicit StopSignals(std::vector<int> signals) : signals_(std::move(signals)) {}

  [[nodiscard]] bool contains(int signo) const;
  // Calls `stop` for each of them, except for a SIGHUP that is ignored, as nohup sets it; and `pass` for
  // SIGUSR1 and SIGUSR2, which go to the workers, if they are not among them.
  void watch(UvPoller& poller, const std::function<void(int)>& stop,
             const std::function<void(int)>& pass) const;

  // Call it for each signal while the job runs.
  void on_signal(int signo);
  // Blocks them: a signal sent from now on stays pending.
  void block() const;
  // The workers were killed by a second signal (SIGNALS in the manual page).
  [[nodiscard]] bool killed() const { return count_ > 1 && interrupted_; }
  // Whether dlaunch must end at once: the workers were killed, or a signal is pending. REQUIRES: block() was
  // called.
  [[nodiscard]] bool end_at_once() const;

 private:
  std::vector<int> signals_;
  int count_ = 0;
  bool interrupted_ = false;  // by the user's SIGINT or SIGQUIT
};

}  // namespace dlaunch::launcher
