// Which ranks a rank blames when its wait has timed out.

#include "runtime/base/stragglers.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlaunch::internal {
namespace {

using Ranks = std::vector<int>;

Ranks blamed(const std::vector<RankProgress>& others, std::uint64_t number) {
  return stragglers(others, number);
}

TEST(Stragglers, AreThoseThatHaveNotEnteredTheOperation) {
  EXPECT_EQ(blamed({{0, 7}, {1, 6}, {3, 6}}, 7), (Ranks{1, 3}));
}

// The others may wait for it in an earlier operation.
TEST(Stragglers, AreOnlyThoseThatLagMost) {
  EXPECT_EQ(blamed({{0, 6}, {1, 4}, {2, 7}, {3, 5}}, 7), (Ranks{1}));
  EXPECT_EQ(blamed({{0, 0}, {1, 4}, {2, 0}}, 7), (Ranks{0, 2}));
}

TEST(Stragglers, NoneIfAllAreInTheOperationOrFurther) {
  EXPECT_EQ(blamed({{0, 7}, {1, 9}}, 7), Ranks{});
  EXPECT_EQ(blamed({}, 7), Ranks{});
}

}  // namespace
}  // namespace dlaunch::internal
