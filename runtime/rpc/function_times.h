// Whether the functions that other workers call are short: then one thread runs many of them, as waking
// another one would take longer than they do.
//
// A function that takes long by the clock may only have lost its processor, and several do if the processors
// are busy. So the first one is suspected, and those after it are judged by what they took of a processor,
// and by whether they slept.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// Any thread.
class FunctionTimes {
 public:
  // Of the calling thread, so far.
  struct Use {
    std::chrono::nanoseconds processor;
    long sleeps;
  };
  struct Begin {
    Deadline now;
    std::optional<Use> use;
  };

  // A function begins, and ends, on the calling thread. `sending`: how long the sending of its answer took.
  [[nodiscard]] Begin begin() const;
  // Returns whether functions are short from now on, and were not before.
  bool end(const Begin& begin, Deadline::duration sending);
  // What end() has found.
  bool add(bool is_long) {
    const int score = score_.load(std::memory_order_relaxed);
    if (!is_long && score == 0) return false;
    score_.store(std::clamp(score + (is_long ? by_long : -1), 0, most_score), std::memory_order_relaxed);
    return !is_long && score == by_long + 1;
  }
  [[nodiscard]] bool are_short() const { return score_.load(std::memory_order_relaxed) <= by_long; }

 private:
  // So long a function may take without delaying others.
  static constexpr auto short_time = std::chrono::microseconds(20);
  static constexpr int by_long = 8;
  static constexpr int most_score = 64;

  std::atomic<int> score_ = 0;  // of the functions that ran last
};

}  // namespace dlaunch::internal
