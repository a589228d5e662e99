#include "runtime/gradients/bucket_assignment.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace dlaunch::internal {

std::vector<BucketPlan> assign_buckets(std::span<const GradientSize> sizes,
                                       std::span<const std::size_t> order, BucketLimits limits) {
  struct Filling {
    BucketPlan bucket;
    std::size_t limit;
  };
  std::map<DType, Filling> filling;
  std::vector<BucketPlan> buckets;
  std::vector<std::size_t> place_of(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    place_of[order[place]] = place;
    const GradientSize& size = sizes[order[place]];
    Filling& now = filling.try_emplace(size.dtype, Filling{{}, limits.first}).first->second;
    now.bucket.dtype = size.dtype;
    now.bucket.parameters.push_back(order[place]);
    now.bucket.bytes += size.bytes;
    if (now.bucket.bytes < now.limit) continue;
    buckets.push_back(std::exchange(now.bucket, {}));
    now.limit = limits.other;
  }
  for (auto& [dtype, last] : filling)
    if (!last.bucket.parameters.empty()) buckets.push_back(std::move(last.bucket));
  std::ranges::sort(buckets, {},
                    [&](const BucketPlan& bucket) { return place_of[bucket.parameters.back()]; });
  return buckets;
}

std::vector<std::size_t> reverse_order(std::size_t parameters) {
  std::vector<std::size_t> order(parameters);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

bool is_permutation_of(std::span<const std::size_t> order, std::size_t count) {
  if (order.size() != count) return false;
  std::vector<bool> seen(count);
  for (const std::size_t number : order) {
    if (number >= count || seen[number]) return false;
    seen[number] = true;
  }
  return true;
}

}  // namespace dlaunch::internal
