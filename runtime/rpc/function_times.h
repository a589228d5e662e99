// Whether the functions that other workers call are short: then one thread runs many of them, as waking
// another one would take longer than they do.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// Any thread.
class FunctionTimes {
 public:
  // How long a function has taken, without the sending of its answer.
  void add(Deadline::duration time) {
    const bool is_long = time > short_time;
    const int score = score_.load(std::memory_order_relaxed);
    if (!is_long && score == 0) return;
    score_.store(std::clamp(score + (is_long ? by_long : -1), 0, most_score), std::memory_order_relaxed);
  }
  [[nodiscard]] bool are_short() const { return score_.load(std::memory_order_relaxed) <= by_long; }

 private:
  // So long a function may take without delaying others.
  static constexpr auto short_time = std::chrono::microseconds(20);
  // Functions count as long if a few of the last ones were: a single one may have lost its processor.
  static constexpr int by_long = 8;
  static constexpr int most_score = 64;

  std::atomic<int> score_ = 0;  // of the functions that ran last
};

}  // namespace dlaunch::internal
