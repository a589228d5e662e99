// Views of a program's memory.

#include "dlaunch/tensor.h"

#include <gtest/gtest.h>

#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::error_of;

TEST(Tensor, KnowsItsParts) {
  std::vector<float> values(6);
  const Tensor tensor = Tensor::from(values.data(), {2, 3});
  EXPECT_EQ(tensor.to_string(), "float32[2, 3] on cpu");
  EXPECT_EQ(tensor.numel(), 6U);
  EXPECT_EQ(tensor.nbytes(), 24U);
  EXPECT_EQ(Tensor::from(values.data(), {}).numel(), 1U);
  EXPECT_EQ(Tensor().numel(), 0U);
  EXPECT_FALSE(tensor.read_only());
  EXPECT_TRUE(Tensor::of(std::span<const float>(values)).read_only());
  EXPECT_EQ(Tensor::of(std::span(values)).dtype(), DType::float32);
}

TEST(Tensor, RefusesImpossibleShapes) {
  std::vector<double> values(6);
  const auto make = [&](std::initializer_list<std::int64_t> shape) {
    return error_of([&] { (void)Tensor::from(values.data(), shape); });
  };
  EXPECT_EQ(make({2, -1}), "a tensor's shape [2, -1] has a negative extent");
  EXPECT_EQ(make({1, 1, 1, 1, 1, 1, 1, 1, 1}), "a tensor has 9 dimensions; at most 8 are possible");
  EXPECT_EQ(make({std::int64_t{1} << 40, std::int64_t{1} << 40}),
            "a tensor of shape [1099511627776, 1099511627776] is larger than any memory");
  EXPECT_EQ(make({0, std::int64_t{1} << 62}), "no error");
  EXPECT_EQ(error_of([] { (void)Tensor::from(static_cast<float*>(nullptr), {1}); }),
            "a tensor of shape [1] has no memory");
  const std::int64_t one = 1;
  EXPECT_EQ(error_of([&] {
              (void)Tensor(reinterpret_cast<char*>(values.data()) + 1, DType::float64, std::span(&one, 1));
            }),
            "the memory of a float64 tensor is not aligned to 8 bytes");
  EXPECT_EQ(error_of([&] { (void)Tensor(values.data(), static_cast<DType>(77), std::span(&one, 1)); }),
            "a tensor of dtype 77: unknown dtype");
  EXPECT_EQ(error_of([&] { (void)Tensor(values.data(), static_cast<DType>(14), std::span(&one, 1)); }),
            "a tensor of dtype 14: unknown dtype");
}

TEST(Tensor, OfARangeIsCheckedAsOthers) {
  std::vector<std::int32_t> values(3);
  const Tensor tensor = Tensor::of(values);
  EXPECT_EQ(tensor.to_string(), "int32[3] on cpu");
  EXPECT_EQ(tensor.data(), values.data());
  EXPECT_EQ(tensor.nbytes(), 12U);
  EXPECT_FALSE(tensor.read_only());
  EXPECT_EQ(Tensor::of(std::span<bool>()).to_string(), "bool[0] on cpu");
  EXPECT_TRUE(Tensor::of(std::span<const bool>()).read_only());
  const auto of = [](std::int32_t* data, std::size_t size) {
    return error_of([&] { (void)Tensor::of(std::span(data, size)); });
  };
  EXPECT_EQ(of(nullptr, 1), "a tensor of shape [1] has no memory");
  EXPECT_EQ(of(values.data(), std::size_t{1} << 61),
            "a tensor of shape [2305843009213693952] is larger than any memory");
  EXPECT_EQ(of(values.data(), ~std::size_t{0}), "a tensor's shape [-1] has a negative extent");
}

TEST(Tensor, SizesOfDtypes) {
  const std::size_t sizes[] = {1, 2, 4, 8, 1, 1, 2, 2, 4, 8, 8, 16, 1, 1};
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    EXPECT_EQ(size_of(static_cast<DType>(i)), sizes[i]) << to_string(static_cast<DType>(i));
}

TEST(Tensor, HoldsAsMuchAsAnAddressSpaceAndNoMore) {
  std::int8_t byte = 0;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Tensor::from(&byte, {most}).numel(), static_cast<std::size_t>(most));
  std::int16_t two = 0;
  EXPECT_EQ(Tensor::from(&two, {most / 2}).nbytes(), static_cast<std::size_t>(most - 1));
  EXPECT_EQ(error_of([&] { (void)Tensor::from(&two, {most / 2 + 1}); }),
            "a tensor of shape [4611686018427387904] is larger than any memory");
  // The product wraps around to 0.
  EXPECT_EQ(error_of([&] {
              (void)Tensor::from(&byte, {std::int64_t{1} << 32, std::int64_t{1} << 32});
            }),
            "a tensor of shape [4294967296, 4294967296] is larger than any memory");
}

TEST(Tensor, NeedsAnAlignmentOfEightBytesAtMost) {
  alignas(16) std::byte memory[32];
  const std::int64_t one = 1;
  const auto at = [&](std::size_t offset, DType dtype) {
    return error_of([&] { (void)Tensor(static_cast<void*>(memory + offset), dtype, std::span(&one, 1)); });
  };
  EXPECT_EQ(at(8, DType::complex128), "no error");
  EXPECT_EQ(at(4, DType::complex128), "the memory of a complex128 tensor is not aligned to 8 bytes");
  EXPECT_EQ(at(4, DType::float32), "no error");
  EXPECT_EQ(at(2, DType::float32), "the memory of a float32 tensor is not aligned to 4 bytes");
  EXPECT_EQ(at(1, DType::float16), "the memory of a float16 tensor is not aligned to 2 bytes");
  EXPECT_EQ(at(1, DType::boolean), "no error");
  // Memory that no element is in may be anywhere.
  EXPECT_EQ(error_of([&] { (void)Tensor::from(reinterpret_cast<double*>(memory + 1), {0, 5}); }), "no error");
}

TEST(Tensor, ShowsTypeShapeAndDevice) {
  std::vector<std::complex<float>> values(8);
  EXPECT_EQ(Tensor::from(values.data(), {8}, {Device::Kind::cuda, 2}).to_string(), "complex64[8] on cuda:2");
  EXPECT_EQ(Tensor::from(values.data(), {}).to_string(), "complex64[] on cpu");
  EXPECT_EQ(Tensor::from(values.data(), {1, 0, 3}).to_string(), "complex64[1, 0, 3] on cpu");
  EXPECT_EQ(Tensor::from(values.data(), {1, 1, 1, 1, 1, 1, 2, 4}).shape().size(), Tensor::max_dims);
}

TEST(DType, EachHasTheSizeAndTheNameOfItsType) {
  for (const DType dtype : test::all_dtypes) {
    test::with_type(dtype, [&]<class T>(T*) {
      EXPECT_EQ(size_of(dtype), sizeof(T)) << to_string(dtype);
      EXPECT_EQ(dtype_of<T>(), dtype) << to_string(dtype);
    });
  }
  EXPECT_EQ(to_string(DType::boolean), "bool");
  EXPECT_EQ(to_string(DType::bfloat16), "bfloat16");
  EXPECT_EQ(to_string(DType::float8_e4m3), "float8_e4m3fn");
  EXPECT_EQ(to_string(DType::float8_e5m2), "float8_e5m2");
  EXPECT_EQ(dtype_of<long long>(), DType::int64);
  // As it may come from another process.
  EXPECT_EQ(to_string(static_cast<DType>(200)), "an unknown dtype");
}

}  // namespace
}  // namespace dlaunch::internal
