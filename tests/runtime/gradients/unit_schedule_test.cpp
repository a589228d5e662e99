// Which unit is gathered ahead, and which is reduced next.

#include "runtime/gradients/unit_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace dlaunch::internal {
namespace {

using Units = std::vector<std::size_t>;

UnitSchedule after_forward(std::size_t units, const Units& order) {
  UnitSchedule schedule(units);
  for (const std::size_t unit : order) schedule.forward(unit);
  return schedule;
}

TEST(UnitSchedule, TheFirstPassKnowsNoNextUnit) {
  UnitSchedule schedule = after_forward(3, {0, 2, 1});
  EXPECT_EQ(schedule.after(0), std::nullopt);
  EXPECT_EQ(schedule.before(1), 2U);
  EXPECT_EQ(schedule.before(0), std::nullopt);
  EXPECT_EQ(schedule.end_backward(), (Units{1, 2, 0}));
  for (int pass = 0; pass < 2; ++pass) {  // also of a pass without gradients, which records nothing
    EXPECT_EQ(schedule.after(0), 2U);
    EXPECT_EQ(schedule.after(2), 1U);
    EXPECT_EQ(schedule.after(1), std::nullopt);
    schedule.forward(0);
  }
}

TEST(UnitSchedule, GradientsAreReducedInTheReverseOrder) {
  UnitSchedule schedule = after_forward(4, {0, 2, 1, 3});
  EXPECT_EQ(schedule.complete(2), Units{});
  EXPECT_EQ(schedule.complete(3), Units{3});
  EXPECT_EQ(schedule.before(1), 2U);
  EXPECT_EQ(schedule.complete(1), (Units{1, 2}));
  EXPECT_EQ(schedule.before(1), std::nullopt);  // it is reduced
  EXPECT_EQ(schedule.end_backward(), Units{0});
}

TEST(UnitSchedule, EachBackwardPassReducesAllUnits) {
  UnitSchedule schedule = after_forward(2, {0, 1});
  EXPECT_EQ(schedule.complete(1), Units{1});
  EXPECT_EQ(schedule.end_backward(), Units{0});
  EXPECT_EQ(schedule.complete(0), Units{});  // once more through the same graph
  EXPECT_EQ(schedule.complete(1), (Units{1, 0}));
  EXPECT_EQ(schedule.end_backward(), Units{});
}

TEST(UnitSchedule, SeveralForwardPassesBeforeOneBackward) {
  UnitSchedule schedule = after_forward(3, {0, 1, 0, 2, 1});
  EXPECT_EQ(Units(schedule.order().begin(), schedule.order().end()), (Units{0, 1, 2}));
  EXPECT_EQ(schedule.end_backward(), (Units{2, 1, 0}));
  schedule.forward(2);
  EXPECT_EQ(schedule.after(0), 1U);  // of the passes before
  EXPECT_EQ(schedule.end_backward(), Units{2});
}

// Whatever the order of the gradients, and if some never come: the same reductions.
TEST(UnitSchedule, TheOrderOfGradientsChangesNothing) {
  std::mt19937 random(1);
  UnitSchedule schedule(8);
  for (int step = 0; step < 500; ++step) {
    Units order(8);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    for (const std::size_t unit : order) schedule.forward(unit);
    const Units wanted(order.rbegin(), order.rend());
    std::ranges::shuffle(order, random);
    order.resize(random() % 9);
    Units reduced;
    for (const std::size_t unit : order)
      std::ranges::copy(schedule.complete(unit), std::back_inserter(reduced));
    std::ranges::copy(schedule.end_backward(), std::back_inserter(reduced));
    ASSERT_EQ(reduced, wanted) << "step " << step;
  }
}

}  // namespace
}  // namespace dlaunch::internal
