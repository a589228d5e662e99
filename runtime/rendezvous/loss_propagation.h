// The failure of a call is often known a moment before its cause: a peer that gave up may have learned
// earlier that a third rank is lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {

// Long enough for the report of a loss to reach a rank that has seen one of its consequences.
inline constexpr auto loss_propagation_delay = std::chrono::milliseconds(500);

// Calls `check` repeatedly until it throws the root error, or `end` has passed.
template <class Check>
void wait_for_root_error(Deadline end, const Check& check) {
  constexpr auto pause = std::chrono::milliseconds(10);
  for (;; std::this_thread::sleep_for(pause)) {
    check();
    if (has_passed(end)) return;
  }
}

}  // namespace dlaunch::internal
