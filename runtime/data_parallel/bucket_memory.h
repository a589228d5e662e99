// The memory of the gradients: one contiguous block a bucket.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "dlaunch/tensor.h"
#include "runtime/gradients/bucket_assignment.h"

namespace dlaunch::internal {

class BucketMemory {
 public:
  // Zeros. `like`: a tensor for each parameter, with the dtype and the shape of its gradient; `plans`: from
  // assign_buckets() over these.
  BucketMemory(std::span<const Tensor> like, std::vector<BucketPlan> plans);
  BucketMemory(const BucketMemory&) = delete;
  BucketMemory& operator=(const BucketMemory&) = delete;
  ~BucketMemory() = default;

  [[nodiscard]] const std::vector<BucketPlan>& plans() const { return plans_; }
  [[nodiscard]] const Tensor& gradient(std::size_t parameter) const { return gradients_[parameter]; }
  [[nodiscard]] const Tensor& buffer(std::size_t bucket) const { return buffers_[bucket]; }

  void zero();
  // The values of the same parameters in other buckets.
  void copy_from(const BucketMemory& other);

 private:
  // The blocks begin at cache lines.
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };

  std::vector<BucketPlan> plans_;
  std::vector<std::vector<Line>> blocks_;
  std::vector<Tensor> buffers_;
  std::vector<Tensor> gradients_;
};

// Both have as many bytes; nothing if they are the same memory.
void copy_values(const Tensor& to, const Tensor& from);

}  // namespace dlaunch::internal
