#include "runtime/data_parallel/bucket_memory.h"

#include <array>
#include <cstdint>
#include <utility>

namespace dlaunch::internal {

BucketMemory::BucketMemory(std::span<const Tensor> like, std::vector<BucketPlan> plans,
                           const Allocate& allocate)
    : plans_(std::move(plans)), gradients_(like.size()) {
  const Device device = like.empty() ? Device() : like.front().device();
  blocks_.reserve(plans_.size());
  for (const BucketPlan& plan : plans_) {
    std::byte* at = blocks_.emplace_back(plan.bytes > 0 ? allocate(plan.bytes) : nullptr).get();
    const std::array elements{static_cast<std::int64_t>(plan.bytes / size_of(plan.dtype))};
    buffers_.emplace_back(static_cast<void*>(at), plan.dtype, elements, device);
    for (const std::size_t parameter : plan.parameters) {
      const Tensor& shape = like[parameter];
      gradients_[parameter] = Tensor(static_cast<void*>(at), shape.dtype(), shape.shape(), device);
      if (shape.nbytes() > 0) at += shape.nbytes();
    }
  }
}

void BucketMemory::zero(const GradientDevice& device) {
  for (const Tensor& buffer : buffers_) device.zero(buffer);
}

void BucketMemory::copy_from(const BucketMemory& other, const GradientDevice& device) {
  for (std::size_t i = 0; i < gradients_.size(); ++i) device.copy(gradients_[i], other.gradients_[i]);
}

}  // namespace dlaunch::internal
