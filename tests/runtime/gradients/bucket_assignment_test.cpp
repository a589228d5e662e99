// Which gradients travel together.

#include "runtime/gradients/bucket_assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace dlaunch::internal {
namespace {

constexpr DType f32 = DType::float32;
constexpr DType f64 = DType::float64;

std::vector<std::vector<std::size_t>> parameters_of(const std::vector<BucketPlan>& buckets) {
  std::vector<std::vector<std::size_t>> result;
  result.reserve(buckets.size());
  for (const BucketPlan& bucket : buckets) result.push_back(bucket.parameters);
  return result;
}

using Parameters = std::vector<std::vector<std::size_t>>;

TEST(BucketAssignment, FillsFromTheLastParameterAndClosesAtTheLimit) {
  const std::vector<GradientSize> sizes = {{40, f32}, {60, f32}, {50, f32}, {10, f32}, {8, f32}, {4, f32}};
  const auto buckets = assign_buckets(sizes, reverse_order(6), {.first = 10, .other = 100});
  EXPECT_EQ(parameters_of(buckets), (Parameters{{5, 4}, {3, 2}, {1, 0}}));
  EXPECT_EQ(buckets[0].bytes, 12U);
  EXPECT_EQ(buckets[1].bytes, 60U) << "the next one would take it beyond its limit";
  EXPECT_EQ(buckets[2].bytes, 100U);
}

TEST(BucketAssignment, ABucketThatIsNotHalfFullTakesALongGradient) {
  const std::vector<GradientSize> sizes = {{500, f32}, {49, f32}};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(2), {.first = 100, .other = 100})),
            (Parameters{{1, 0}}));
}

// Layers of a weight and a bias, whose gradient comes first.
TEST(BucketAssignment, TheBiasOfTheNextLayerIsNotWaitedFor) {
  const std::vector<GradientSize> sizes = {{80, f32}, {1, f32}, {80, f32}, {1, f32}, {80, f32}, {1, f32}};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(6), {.first = 10, .other = 100})),
            (Parameters{{5, 4}, {3, 2}, {1, 0}}));
  // Weights that come first: the bias of the first bucket, which was full, goes with the next layer.
  const std::vector<std::size_t> weights_first = {4, 5, 2, 3, 0, 1};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, weights_first, {.first = 10, .other = 100})),
            (Parameters{{4}, {5, 2}, {3, 0, 1}}));
}

TEST(BucketAssignment, ExactlyTheLimitIsFull) {
  const std::vector<GradientSize> sizes = {{10, f32}, {10, f32}, {10, f32}};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(3), {.first = 20, .other = 10})),
            (Parameters{{2, 1}, {0}}));
}

TEST(BucketAssignment, WithoutALimitEachGradientIsABucket) {
  const std::vector<GradientSize> sizes = {{10, f32}, {0, f32}, {10, f32}};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(3), {.first = 0, .other = 0})),
            (Parameters{{2}, {1}, {0}}));
}

// In the order in which they are complete.
TEST(BucketAssignment, ABucketHasOneDtype) {
  const std::vector<GradientSize> sizes = {{8, f32}, {8, f64}, {8, f32}, {8, f64}, {8, f32}};
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(5), {.first = 100, .other = 100})),
            (Parameters{{3, 1}, {4, 2, 0}}));
  // Those of float64 are never full, and are complete before the last full one of float32 is.
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(5), {.first = 24, .other = 100})),
            (Parameters{{3, 1}, {4, 2, 0}}));
  // The first limit counts for each dtype.
  EXPECT_EQ(parameters_of(assign_buckets(sizes, reverse_order(5), {.first = 8, .other = 100})),
            (Parameters{{4}, {3}, {1}, {2, 0}}));
}

TEST(BucketAssignment, HasEachParameterOnceInTheGivenOrder) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = random() % 40;
    std::vector<GradientSize> sizes;
    for (std::size_t i = 0; i < count; ++i) sizes.push_back({random() % 30, random() % 3 == 0 ? f64 : f32});
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::shuffle(order, random);
    const BucketLimits limits{random() % 40, random() % 80};
    const auto buckets = assign_buckets(sizes, order, limits);
    std::vector<std::size_t> all;
    std::vector<std::size_t> place(count);
    for (std::size_t i = 0; i < count; ++i) place[order[i]] = i;
    std::size_t last = 0;
    for (const BucketPlan& bucket : buckets) {
      ASSERT_FALSE(bucket.parameters.empty());
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
        const std::size_t parameter = bucket.parameters[i];
        EXPECT_EQ(sizes[parameter].dtype, bucket.dtype);
        if (i > 0) {
          EXPECT_LT(place[bucket.parameters[i - 1]], place[parameter]);
        }
        // Without its last gradient it has not reached a limit.
        if (i > 0) {
          EXPECT_LT(bytes, std::max(limits.first, limits.other));
        }
        bytes += sizes[parameter].bytes;
        all.push_back(parameter);
      }
      EXPECT_EQ(bytes, bucket.bytes);
      EXPECT_GE(place[bucket.parameters.back()], last);
      last = place[bucket.parameters.back()];
    }
    EXPECT_TRUE(is_permutation_of(all, count));
  }
}

TEST(BucketAssignment, KnowsAPermutation) {
  EXPECT_TRUE(is_permutation_of({}, 0));
  EXPECT_TRUE(is_permutation_of(std::vector<std::size_t>{2, 0, 1}, 3));
  EXPECT_FALSE(is_permutation_of(std::vector<std::size_t>{2, 0, 2}, 3));
  EXPECT_FALSE(is_permutation_of(std::vector<std::size_t>{3, 0, 1}, 3));
  EXPECT_FALSE(is_permutation_of(std::vector<std::size_t>{0, 1}, 3));
  EXPECT_FALSE(is_permutation_of(std::vector<std::size_t>{0, 1, 2, 3}, 3));
}

}  // namespace
}  // namespace dlaunch::internal
