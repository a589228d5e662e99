// When to ask a question that goes through all nodes, if the messages of each of them may change its answer.
// Pure.
//
// Thousands of nodes send such messages at about the same time, for example while nothing moves. A look after
// each would cost the square of their number: so the looks have pauses, which grow with it.
#pragma once

#include <cstddef>
#include <optional>

#include "store/base/time.h"

namespace dlaunch::agent {

class PacedLooks {
 public:
  // So few nodes have a look after each message.
  static constexpr std::size_t few = 64;
  // About a hundred times as long as a look takes.
  static constexpr Duration pause_for_a_node = std::chrono::microseconds(25);

  // Whether to look now; otherwise a look is due later.
  bool take(TimePoint now, std::size_t nodes) {
    if (nodes > few && looked_ && now < *looked_ + pause_for_a_node * nodes) {
      due_ = *looked_ + pause_for_a_node * nodes;
      return false;
    }
    look(now);
    return true;
  }
  // The look that is due, once its time has come.
  bool take_due(TimePoint now) {
    const bool has_come = due_ && now >= *due_;
    if (has_come) look(now);
    return has_come;
  }
  // None: no look is due.
  [[nodiscard]] std::optional<TimePoint> due() const { return due_; }

 private:
  void look(TimePoint now) {
    looked_ = now;
    due_.reset();
  }

  std::optional<TimePoint> looked_;
  std::optional<TimePoint> due_;
};

}  // namespace dlaunch::agent
