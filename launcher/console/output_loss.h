// What ends the wait for the readers of dlaunch's output, and how it is said that they did not take all of
// it.
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

  // One came while the job ran.
  void on_signal(int signo);
  // None comes any more: one that is sent stays pending.
  void block() const;
  // The workers were killed by a second signal (SIGNALS in the manual page).
  [[nodiscard]] bool killed() const { return heard_ > 1 && interrupted_; }
  // Whether dlaunch has to end at once: the workers were killed, or a signal is pending. REQUIRES: they are
  // blocked.
  [[nodiscard]] bool end_at_once() const;

 private:
  std::vector<int> signals_;
  int heard_ = 0;
  bool interrupted_ = false;  // by one of a person's: Ctrl-C, Ctrl-backslash
};

// With the reader of dlaunch's own last line, once the workers' output has been waited for.
inline constexpr Duration own_line_patience = std::chrono::seconds(1);

// As `describe` wants it.
std::string why_dropped(bool hurried, Duration patience);

// A sentence; empty: all was written.
std::string describe_gaps(const agent::Dropped& lost, int files, const std::string& log_dir);

// A sentence; empty: all was taken. `log_dir`: where log files have all of it; empty: nowhere.
std::string describe(const DroppedOutput& dropped, const std::string& why, const std::string& log_dir);

}  // namespace dlaunch::launcher
