#include "runtime/base/quick_clock.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlaunch::internal {
namespace {

// Long enough for several comparisons of the two clocks.
TEST(QuickClock, StaysBesideTheSteadyClock) {
  constexpr auto most_difference = std::chrono::milliseconds(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  for (auto before = std::chrono::steady_clock::now(); before < end;) {
    const Deadline quick = QuickClock::now();
    const auto after = std::chrono::steady_clock::now();
    ASSERT_GE(quick, before - most_difference);
    ASSERT_LE(quick, after + most_difference);
    before = after;
  }
}

}  // namespace
}  // namespace dlaunch::internal
