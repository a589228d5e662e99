// The health check that a node passes before it joins the job, and between two rounds. Pure.
#pragma once

#include <optional>
#include <utility>

#include "store/base/time.h"

namespace dlaunch::agent {

class HealthGate {
 public:
  // A check begins, and may take until `until`. `first`: the node has not looked for a coordinator yet.
  void begin(TimePoint until, bool first) {
    until_ = until;
    killed_ = false;
    first_ = first;
  }
  [[nodiscard]] bool is_running() const { return until_.has_value(); }
  // When the check is to be killed; none: no check runs, or it was killed.
  [[nodiscard]] std::optional<TimePoint> kill_at() const { return killed_ ? std::nullopt : until_; }
  // True once, when the check took too long.
  bool take_kill(TimePoint now) { return until_ && now >= *until_ && !std::exchange(killed_, true); }

  // The check has ended. False: none ran.
  bool end() { return std::exchange(until_, std::nullopt).has_value(); }
  // Of the last check.
  [[nodiscard]] bool was_killed() const { return killed_; }
  [[nodiscard]] bool was_first() const { return first_; }

 private:
  std::optional<TimePoint> until_;
  bool killed_ = false;
  bool first_ = false;
};

}  // namespace dlaunch::agent
