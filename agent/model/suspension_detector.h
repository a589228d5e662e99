// Detects that this process itself did not run for so long that others may have declared it lost: it was
// stopped, or its machine was. Then it must not report that the others were lost. Pure.
#pragma once

#include <optional>
#include <string>

#include "store/base/time.h"

namespace dlaunch::agent {

class SuspensionDetector {
 public:
  // Called at each event. `asked_for`: when a timer should have woken this process; that event is this one or
  // still to come. `node_timeout`: the time after which a silent node is lost; zero: never.
  void look(TimePoint now, std::optional<TimePoint> asked_for, Duration node_timeout) {
    if (node_timeout == Duration(0) || !asked_for || now - *asked_for < node_timeout / 2) return;
    for_ = now - *asked_for;
    until_ = now + node_timeout / 2;  // its consequences have arrived by then
  }

  // "its dlaunch did not run for 5.1 s (stopped, or the machine was)"; empty: it has run.
  [[nodiscard]] std::string describe(TimePoint now) const {
    if (!until_ || now > *until_) return "";
    return "its dlaunch did not run for " + store::to_words(for_) + " (stopped, or the machine was)";
  }

 private:
  Duration for_{};
  std::optional<TimePoint> until_;
};

}  // namespace dlaunch::agent
