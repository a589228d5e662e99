#include "runtime/gradients/bucket_assignment.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace dlaunch::internal {

namespace {

// A bucket of one dtype that is being filled.
struct Filling {
  BucketPlan bucket;
  std::size_t limit;

  [[nodiscard]] bool is_too_full_for(std::size_t bytes) const {
    return 2 * bucket.bytes >= limit && bucket.bytes > 0 && bucket.bytes + bytes > limit;
  }
};

// Takes the short gradients at the end of the bucket, which stays half full, into the next one.
BucketPlan split_short_end(Filling& now, std::span<const GradientSize> sizes) {
  const std::size_t most = now.limit / 64;
  BucketPlan& bucket = now.bucket;
  BucketPlan next{{}, 0, bucket.dtype};
  while (bucket.parameters.size() > 1) {
    const std::size_t bytes = sizes[bucket.parameters.back()].bytes;
    if (next.bytes + bytes > most || bucket.bytes - bytes < now.limit / 2) break;
    next.parameters.push_back(bucket.parameters.back());
    next.bytes += bytes;
    bucket.parameters.pop_back();
    bucket.bytes -= bytes;
  }
  std::ranges::reverse(next.parameters);
  return next;
}

}  // namespace

std::vector<BucketPlan> assign_buckets(std::span<const GradientSize> sizes,
                                       std::span<const std::size_t> order, BucketLimits limits) {
  std::map<DType, Filling> filling;
  std::vector<BucketPlan> buckets;
  std::vector<std::size_t> place_of(order.size());
  for (std::size_t place = 0; place < order.size(); ++place) {
    place_of[order[place]] = place;
    const GradientSize& size = sizes[order[place]];
    Filling& now = filling.try_emplace(size.dtype, Filling{{}, limits.first}).first->second;
    if (now.is_too_full_for(size.bytes)) {
      BucketPlan next = split_short_end(now, sizes);
      buckets.push_back(std::exchange(now.bucket, std::move(next)));
      now.limit = limits.other;
    }
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
