// The memory of the gradients: one contiguous block a bucket.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dlaunch/tensor.h"
#include "runtime/data_parallel/gradient_device.h"
#include "runtime/gradients/bucket_assignment.h"

namespace dlaunch::internal {

class BucketMemory {
 public:
  // Zeros. `like`: a tensor for each parameter, with the dtype, the shape and the device of its gradient;
  // `plans`: from assign_buckets() over these. `allocate` returns so many zero bytes; it is not asked for 0.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  BucketMemory(std::span<const Tensor> like, std::vector<BucketPlan> plans, const Allocate& allocate);
  BucketMemory(const BucketMemory&) = delete;
  BucketMemory& operator=(const BucketMemory&) = delete;
  ~BucketMemory() = default;

  [[nodiscard]] const std::vector<BucketPlan>& plans() const { return plans_; }
  [[nodiscard]] const Tensor& gradient(std::size_t parameter) const { return gradients_[parameter]; }
  [[nodiscard]] const Tensor& buffer(std::size_t bucket) const { return buffers_[bucket]; }

  void zero(const GradientDevice& device);
  // The values of the same parameters in other buckets.
  void copy_from(const BucketMemory& other, const GradientDevice& device);

 private:
  std::vector<BucketPlan> plans_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::vector<Tensor> buffers_;
  std::vector<Tensor> gradients_;
};

}  // namespace dlaunch::internal
