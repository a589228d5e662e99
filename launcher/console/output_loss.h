// The signals that end the wait for the readers of dlaunch's output, and messages about output that they did
// not take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/report/report.h"
#include "store/base/time.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// The signals that stop the job. Not thread-safe.
class StopSignals {
 public:
  explicit StopSignals(std::vector<int> signals) : signals_(std::move(signals)) {}

  [[nodiscard]] bool contains(int signo) const;
  // Calls `stop` for each of them, except for a SIGHUP that is ignored, as nohup sets it; and `pass` for
  // SIGUSR1 and SIGUSR2, which go to the workers, if they are not among them.
  void watch(agent::UvPoller& poller, const std::function<void(int)>& stop,
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

// How long to wait for the reader to take dlaunch's own last line, after the wait for the workers' output.
inline constexpr Duration own_line_patience = std::chrono::seconds(1);

// The reason, for describe().
std::string why_dropped(bool hurried, Duration patience);

// A sentence; empty: everything was written.
std::string describe_gaps(const agent::Dropped& lost, int files, const std::string& log_dir);

// A sentence; empty: everything was taken. `log_dir`: where log files have all of it; empty: there are none.
std::string describe(const DroppedOutput& dropped, const std::string& why, const std::string& log_dir);

}  // namespace dlaunch::launcher
