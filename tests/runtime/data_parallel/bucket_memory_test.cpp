// Where gradients lie.

#include "runtime/data_parallel/bucket_memory.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dlaunch::internal {
namespace {

struct Model {
  std::vector<float> a = std::vector<float>(6);
  std::vector<double> b = std::vector<double>(3);
  std::vector<float> c;
  std::vector<float> d = std::vector<float>(2);
  std::vector<Tensor> tensors{Tensor::from(a.data(), {2, 3}), Tensor::of(b), Tensor::of(c), Tensor::of(d)};
  std::vector<GradientSize> sizes{
      {24, DType::float32}, {24, DType::float64}, {0, DType::float32}, {8, DType::float32}};

  [[nodiscard]] std::vector<BucketPlan> plans(const std::vector<std::size_t>& order,
                                              BucketLimits limits) const {
    return assign_buckets(sizes, order, limits);
  }
};

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  const auto block = std::make_shared<std::vector<Line>>(bytes / sizeof(Line) + 1);
  return {block, block->front().bytes};
}

float* values(const Tensor& tensor) { return static_cast<float*>(tensor.data()); }

TEST(BucketMemory, HoldsGradientsOneAfterAnother) {
  const Model model;
  const BucketMemory memory(model.tensors, model.plans(reverse_order(4), {100, 100}), allocate);
  ASSERT_EQ(memory.plans().size(), 2U);
  EXPECT_EQ(memory.buffer(0).to_string(), "float64[3] on cpu");
  EXPECT_EQ(memory.buffer(1).to_string(), "float32[8] on cpu");
  EXPECT_EQ(memory.gradient(0).to_string(), "float32[2, 3] on cpu");
  EXPECT_EQ(memory.gradient(3).data(), memory.buffer(1).data());
  EXPECT_EQ(values(memory.gradient(0)), values(memory.buffer(1)) + 2);
  EXPECT_EQ(memory.gradient(2).numel(), 0U);
  for (const std::size_t bucket : {0U, 1U})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.buffer(bucket).data()) % 64, 0U);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(values(memory.buffer(1))[i], 0.0F);
}

TEST(BucketMemory, MovesIntoOtherBuckets) {
  const Model model;
  const BucketMemory before(model.tensors, model.plans(reverse_order(4), {100, 100}), allocate);
  for (std::size_t i = 0; i < 8; ++i) values(before.buffer(1))[i] = static_cast<float>(i + 1);
  BucketMemory after(model.tensors, model.plans({0, 1, 2, 3}, {1, 1}), allocate);
  ASSERT_EQ(after.plans().size(), 3U);
  after.copy_from(before, GradientDevice());
  EXPECT_EQ(values(after.gradient(3))[0], 1.0F);
  EXPECT_EQ(values(after.gradient(0))[5], 8.0F);
  after.zero(GradientDevice());
  EXPECT_EQ(values(after.gradient(0))[5], 0.0F);
}

}  // namespace
}  // namespace dlaunch::internal
