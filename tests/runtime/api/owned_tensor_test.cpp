// Tensors with memory of their own.

#include "dlaunch/owned_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "dlaunch/threads.h"

namespace dlaunch {
namespace {

std::vector<float> values_of(const OwnedTensor& tensor) {
  const auto values = tensor.as<float>();
  return {values.begin(), values.end()};
}

template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const DistError& error) {
    return error.what();
  }
  return "";
}

TEST(OwnedTensor, SharesItsMemoryWithItsCopies) {
  OwnedTensor copy;
  EXPECT_EQ(copy.numel(), 0U);
  {
    const OwnedTensor tensor = OwnedTensor::zeros({2, 3});
    EXPECT_EQ(tensor.view().to_string(), "float32[2, 3] on cpu");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.view().data()) % 64, 0U);
    EXPECT_TRUE(std::ranges::all_of(tensor.as<float>(), [](float value) { return value == 0; }));
    copy = tensor;
    tensor.as<float>()[4] = 5;
  }
  EXPECT_EQ(values_of(copy), (std::vector<float>{0, 0, 0, 0, 5, 0}));
  const OwnedTensor other = copy.clone();
  copy.as<float>()[0] = 1;
  EXPECT_EQ(values_of(other), (std::vector<float>{0, 0, 0, 0, 5, 0}));
}

TEST(OwnedTensor, TakesAVectorOver) {
  std::vector<double> values{1, 2, 3};
  const double* const memory = values.data();
  const OwnedTensor tensor = OwnedTensor::of(std::move(values));
  EXPECT_EQ(tensor.view().to_string(), "float64[3] on cpu");
  EXPECT_EQ(tensor.as<double>().data(), memory);
}

TEST(OwnedTensor, PartsAreTheSameMemory) {
  const OwnedTensor rows = OwnedTensor::of(std::vector<float>{1, 2, 3, 4, 5, 6}).reshape({3, 2});
  const OwnedTensor last = rows.narrow(1, 2);
  EXPECT_EQ(last.view().to_string(), "float32[2, 2] on cpu");
  rows.as<float>()[5] = 7;
  EXPECT_EQ(values_of(last), (std::vector<float>{3, 4, 5, 7}));
  EXPECT_EQ(rows.narrow(3, 0).numel(), 0U);
  EXPECT_EQ(OwnedTensor::zeros({0, 4}).narrow(0, 0).numel(), 0U);
}

TEST(OwnedTensor, Errors) {
  const OwnedTensor tensor = OwnedTensor::zeros({3, 2});
  EXPECT_EQ(error_of([&] { (void)tensor.as<double>(); }),
            "the elements of the tensor float32[3, 2] on cpu are no float64");
  EXPECT_EQ(error_of([&] { (void)tensor.reshape({7}); }),
            "the tensor float32[3, 2] on cpu has 6 elements; the new shape has 7");
  EXPECT_EQ(error_of([&] { (void)tensor.narrow(2, 2); }),
            "the tensor float32[3, 2] on cpu has no 2 rows from row 2 on");
  EXPECT_NE(error_of([&] { (void)tensor.narrow(-1, 1); }), "");
  EXPECT_NE(error_of([&] { (void)tensor.narrow(1, std::numeric_limits<std::int64_t>::max()); }), "");
  EXPECT_NE(error_of([&] { (void)OwnedTensor::zeros(std::span<const std::int64_t>{}).narrow(0, 0); }), "");
  EXPECT_NE(error_of([] { (void)OwnedTensor::empty({-1}); }), "");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the process
  EXPECT_EQ(error_of([] { (void)OwnedTensor::empty({std::int64_t{1} << 60}, DType::uint8); }),
            "there is no memory for a tensor of 1152921504606846976 bytes");
#endif
}

TEST(OwnedTensor, EveryCallTakesIt) {
  run_ranks_as_threads(2, [](int rank) {
    init_process_group();
    const OwnedTensor own = OwnedTensor::of(std::vector<float>{static_cast<float>(rank), 1});
    all_reduce(own);
    EXPECT_EQ(values_of(own), (std::vector<float>{1, 2}));
    const OwnedTensor both = OwnedTensor::zeros({2, 2});
    all_gather_into_tensor(both, own);
    EXPECT_EQ(values_of(both), (std::vector<float>{1, 2, 1, 2}));
    const std::vector<Tensor> parts{both.narrow(0, 1), both.narrow(1, 1)};
    const OwnedTensor sum = OwnedTensor::empty({2});
    reduce_scatter(sum, parts);
    EXPECT_EQ(values_of(sum), (std::vector<float>{2, 4}));
    destroy_process_group();
  });
}

// Under AddressSanitizer this shows whether the memory is there.
TEST(OwnedTensor, AnOperationHoldsItsMemory) {
  run_ranks_as_threads(2, [](int) {
    init_process_group();
    CollectiveOptions options;
    options.async_op = true;
    std::vector<Work> works;
    for (int i = 0; i < 20; ++i) {
      const OwnedTensor tensor = OwnedTensor::zeros({100'000});
      works.push_back(tensor.held_by(all_reduce(tensor, ReduceOp::sum, options)));
    }
    for (const Work& work : works) work.wait();
    destroy_process_group();
  });
}

}  // namespace
}  // namespace dlaunch
