// The notice that workers get of a planned end of their own or another node (--preempt-signal). Pure.
#pragma once

#include <optional>
#include <utility>

#include "store/base/time.h"

namespace dlaunch::agent {

class PreemptNotice {
 public:
  // Slurm asks twice within milliseconds when it ends a job: by slurmd, and by srun, which ends too. A busy
  // machine may take longer.
  static constexpr Duration repeat_time = std::chrono::seconds(5);

  // This node was asked to end: SIGTERM follows at `until`.
  void begin(TimePoint now, TimePoint until) {
    pending_ = true;
    until_ = until;
    repeated_until_ = now + repeat_time;
  }
  // Asked to end now, it was asked the same before, and not to be quicker.
  [[nodiscard]] bool is_repeated(TimePoint now) const { return until_ && now < repeated_until_; }
  // This node was asked to end, and its workers may end first.
  [[nodiscard]] bool is_pending() const { return pending_; }
  // None: no SIGTERM is pending.
  [[nodiscard]] std::optional<TimePoint> until() const { return until_; }
  // True once, when SIGTERM is due.
  bool take_end(TimePoint now) {
    if (!until_ || now < *until_) return false;
    until_.reset();
    return true;
  }

  // True once a round: its workers are given notice now.
  bool take_signal() { return !std::exchange(sent_, true); }
  void on_world() { sent_ = false; }

 private:
  bool pending_ = false;
  std::optional<TimePoint> until_;
  TimePoint repeated_until_;
  bool sent_ = false;  // to this round's workers
};

}  // namespace dlaunch::agent
