// Tensors cut into parts.

#include "runtime/group/tensor_parts.h"

#include <gtest/gtest.h>

#include <complex>
#include <span>
#include <vector>

namespace dlaunch::internal {
namespace {

TEST(Slice, IsAViewOfTheSameMemory) {
  std::vector<double> values(10);
  const Tensor whole = Tensor::from(values.data(), {2, 5});
  const Tensor part = slice(whole, 3, 4);
  EXPECT_EQ(part.data(), values.data() + 3);
  EXPECT_EQ(part.numel(), 4U);
  EXPECT_EQ(part.to_string(), "float64[4] on cpu");
  EXPECT_FALSE(part.read_only());
  EXPECT_EQ(slice(whole, 10, 0).numel(), 0U);
}

TEST(Slice, KeepsTypeDeviceAndProtection) {
  const std::vector<std::complex<double>> values(4);
  const Tensor constant = slice(Tensor::of(values), 1, 2);
  EXPECT_TRUE(constant.read_only());
  EXPECT_EQ(constant.dtype(), DType::complex128);
  EXPECT_EQ(constant.data(), values.data() + 1);
  std::vector<float> memory(4);
  const Device gpu{Device::Kind::cuda, 3};
  EXPECT_EQ(slice(Tensor::from(memory.data(), {4}, gpu), 0, 1).device(), gpu);
}

TEST(EqualParts, CoverTheWholeInOrder) {
  std::vector<std::int16_t> values(12);
  const ShortArray<Tensor> parts = equal_parts(Tensor::of(values), 3);
  ASSERT_EQ(parts.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[i].data(), values.data() + 4 * i);
    EXPECT_EQ(parts[i].numel(), 4U);
  }
  EXPECT_EQ(equal_parts(Tensor(), 4).size(), 4U);
}

TEST(Sums, AreOverAllTensors) {
  std::vector<double> eight(3);
  std::vector<std::int8_t> one(5);
  const std::vector<Tensor> tensors = {Tensor::of(eight), Tensor::of(one), Tensor()};
  EXPECT_EQ(bytes_of(tensors), 3 * 8 + 5U);
  EXPECT_EQ(elements_of(tensors), 8U);
  EXPECT_EQ(bytes_of({}), 0U);
  EXPECT_EQ(elements_of({}), 0U);
}

}  // namespace
}  // namespace dlaunch::internal
