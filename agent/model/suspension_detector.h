// Whether this process itself did not run for so long that others may have given it up: it was stopped, or
// its machine was. Then it is not for it to say that they were lost. Pure.
#pragma once

#include <optional>
#include <string>

#include "store/base/time.h"

namespace dlaunch::agent {

class SuspensionDetector {
 public:
  // At each event. `asked_for`: when a timer was to wake this process, whose event may be this one or is
  // still to come. `node_timeout`: after which a silent node is given up; zero: never.
  void look(TimePoint now, std::optional<TimePoint> asked_for, Duration node_timeout) {
    if (node_timeout == Duration(0) || !asked_for || now - *asked_for < node_timeout / 2) return;
    for_ = now - *asked_for;
    until_ = now + node_timeout / 2;  // what follows from it has come by then
  }

  // "its dlaunch did not run for 5.1 s (stopped, or the machine was)"; empty: it has run.
  [[nodiscard]] std::string describe(TimePoint now) const {
    if (!until_ || now > *until_) return "";
    return "its dlaunch did not run for " + dlaunch::to_words(for_) + " (stopped, or the machine was)";
  }

 private:
  Duration for_{};
  std::optional<TimePoint> until_;
};

}  // namespace dlaunch::agent
