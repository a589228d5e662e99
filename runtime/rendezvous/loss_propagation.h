// That a call fails is often known a moment before why: whom a rank was connected with may only have heard
// sooner that a third one is lost.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"

namespace dlaunch {

// Long enough for the news of a loss to come to a rank that is told something that follows from it.
inline constexpr auto loss_propagation_delay = std::chrono::milliseconds(500);

// Asks `tell` again and again, until it throws what is known, or `end` has passed.
template <class Check>
void wait_for_root_error(Deadline end, const Check& check) {
  constexpr auto pause = std::chrono::milliseconds(10);
  for (;; std::this_thread::sleep_for(pause)) {
    check();
    if (has_passed(end)) return;
  }
}

}  // namespace dlaunch
