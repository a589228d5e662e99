// In which order buckets are reduced, whatever the order in which gradients arrive.

#include "runtime/gradients/step_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace dlaunch::internal {
namespace {

std::vector<BucketPlan> buckets_of(std::vector<std::vector<std::size_t>> parameters) {
  std::vector<BucketPlan> buckets;
  for (auto& some : parameters) buckets.push_back({.parameters = std::move(some)});
  return buckets;
}

void mark(StepState& state, std::size_t parameter) {
  ASSERT_TRUE(state.claim(parameter));
  state.arrive(parameter);
}

TEST(StepState, LaunchesABucketWithItsLastGradient) {
  StepState state(3, buckets_of({{2, 1}, {0}}));
  mark(state, 2);
  EXPECT_EQ(state.next_launch(), std::nullopt);
  ASSERT_TRUE(state.claim(1));
  EXPECT_EQ(state.next_launch(), std::nullopt);  // its bytes are not there
  state.arrive(1);
  EXPECT_EQ(state.next_launch(), 0U);
  EXPECT_EQ(state.next_launch(), std::nullopt);
  EXPECT_FALSE(state.all_arrived());
  mark(state, 0);
  EXPECT_TRUE(state.all_arrived());
  EXPECT_EQ(state.next_launch(), 1U);
  EXPECT_EQ(state.next_launch(), std::nullopt);
}

TEST(StepState, ACompleteBucketWaitsForTheOnesBefore) {
  StepState state(3, buckets_of({{2}, {1}, {0}}));
  mark(state, 0);
  mark(state, 1);
  EXPECT_EQ(state.next_launch(), std::nullopt);
  mark(state, 2);
  EXPECT_EQ(state.next_launch(), 0U);
  EXPECT_EQ(state.next_launch(), 1U);
  EXPECT_EQ(state.next_launch(), 2U);
  EXPECT_EQ(state.next_launch(), std::nullopt);
}

TEST(StepState, AGradientComesOnceAStep) {
  StepState state(2, buckets_of({{1, 0}}));
  EXPECT_TRUE(state.claim(1));
  EXPECT_FALSE(state.claim(1));
  state.arrive(1);
  EXPECT_FALSE(state.claim(1));
  EXPECT_EQ(state.missing(), std::vector<std::size_t>{0});
  state.begin();
  EXPECT_EQ(state.missing(), (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(state.arrival_order().empty());
  EXPECT_TRUE(state.claim(1));
}

// Eight ranks, each with an order of arrival of its own: all launch each bucket once, in one order, and none
// before its gradients are there.
TEST(StepState, AllRanksLaunchInOneOrder) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 30;
    std::vector<GradientSize> sizes;
    for (std::size_t i = 0; i < count; ++i)
      sizes.push_back({random() % 50, random() % 4 == 0 ? DType::float64 : DType::float32});
    const auto buckets = assign_buckets(sizes, reverse_order(count), {random() % 60, random() % 100});
    std::vector<std::size_t> in_order(buckets.size());
    for (std::size_t i = 0; i < in_order.size(); ++i) in_order[i] = i;
    for (int rank = 0; rank < 8; ++rank) {
      StepState state(count, buckets);
      for (int step = 0; step < 2; ++step) {
        state.begin();
        std::vector<std::size_t> arrival = reverse_order(count);
        std::ranges::shuffle(arrival, random);
        std::vector<bool> there(count);
        std::vector<std::size_t> launched;
        for (const std::size_t parameter : arrival) {
          mark(state, parameter);
          there[parameter] = true;
          while (const auto bucket = state.next_launch()) {
            for (const std::size_t needed : buckets[*bucket].parameters) EXPECT_TRUE(there[needed]);
            launched.push_back(*bucket);
          }
        }
        EXPECT_EQ(launched, in_order);
        EXPECT_TRUE(std::ranges::equal(state.arrival_order(), arrival));
        EXPECT_TRUE(state.missing().empty());
      }
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
