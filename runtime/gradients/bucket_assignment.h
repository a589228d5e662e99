// Which gradients travel together. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// What the assignment must know of a parameter's gradient.
struct GradientSize {
  std::size_t bytes;
  DType dtype;

  bool operator==(const GradientSize&) const = default;
};

// The gradients of one all_reduce, which lie one after another in its memory, all of one dtype.
struct BucketPlan {
  std::vector<std::size_t> parameters;  // in the order of their memory
  std::size_t bytes = 0;
  DType dtype = DType::float32;

  bool operator==(const BucketPlan&) const = default;
};

struct BucketLimits {
  std::size_t
      first;  // bytes of the first bucket of a dtype: it is short, so that the first all_reduce starts
  std::size_t other;  // early
};

// Fills buckets in the given order of the parameters. A bucket is complete when it has reached its limit. A
// gradient that would take one that is half full beyond its limit begins the next bucket, and so do the short
// ones right before it: a bucket that waits for the bias of the next layer is reduced a layer later. A
// gradient is never split, and a bucket holds one at least. The result is in the order in which the buckets
// are complete if the gradients arrive in `order`: that is the order of the all_reduce calls.
// REQUIRES: is_permutation_of(order, sizes.size()).
std::vector<BucketPlan> assign_buckets(std::span<const GradientSize> sizes,
                                       std::span<const std::size_t> order, BucketLimits limits);

// From the last parameter to the first: backward passes compute the gradients of the last layers first.
std::vector<std::size_t> reverse_order(std::size_t parameters);

// Whether `order` has each number from 0 to count - 1 once.
bool is_permutation_of(std::span<const std::size_t> order, std::size_t count);

}  // namespace dlaunch::internal
