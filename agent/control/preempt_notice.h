// The notice that workers get of a planned end of their own or another node (--preempt-signal). Pure.
#pragma once

#include <optional>
#include <utility>

#include "store/base/time.h"

namespace dlaunch::agent {

class PreemptNotice {
 public:
  // This node was asked to end: SIGTERM follows at `until`.
  void begin(TimePoint until) {
    pending_ = true;
    until_ = until;
  }
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
  bool sent_ = false;  // to this round's workers
};

}  // namespace dlaunch::agent
