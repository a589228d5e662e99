// Tensors of LibTorch as views of ours, and back.

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "dlaunch/torch/tensor.h"
#include "tests/runtime/torch/on_ranks.h"

namespace dlaunch::torch {
namespace {

using test::error_of;

TEST(TorchTensor, AViewHasTheSameMemoryDtypeAndShape) {
  for (const at::ScalarType type :
       {at::kChar, at::kShort, at::kInt, at::kLong, at::kByte, at::kBool, at::kHalf, at::kBFloat16,
        at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor tensor = ::torch::ones({2, 3}, type);
    const Tensor view = view_of(tensor);
    EXPECT_EQ(view.data(), tensor.data_ptr());
    EXPECT_EQ(scalar_type_of(view.dtype()), type);
    EXPECT_EQ(view.nbytes(), tensor.nbytes());
    const at::Tensor back = tensor_of(view);
    EXPECT_TRUE(back.equal(tensor)) << type;
    EXPECT_EQ(back.data_ptr(), tensor.data_ptr());
  }
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
TEST(TorchTensor, FloatsOfEightBitsAreReduced) {
  for (const auto& [type, dtype] :
       {std::pair(at::kFloat8_e4m3fn, DType::float8_e4m3), std::pair(at::kFloat8_e5m2, DType::float8_e5m2)}) {
    test::on_ranks(2, [&](int rank) {
      const at::Tensor tensor = ::torch::tensor({1.0F, static_cast<float>(rank)}).to(type);
      const Tensor view = view_of(tensor);
      EXPECT_EQ(view.dtype(), dtype);
      dlaunch::all_reduce(view);
      EXPECT_EQ(tensor_of(view).scalar_type(), type);
      EXPECT_TRUE(tensor.to(at::kFloat).equal(::torch::tensor({2.0F, 1.0F}))) << tensor;
    });
  }
}
#else
TEST(TorchTensor, FloatsOfEightBitsNeedANewerLibTorch) {
  EXPECT_EQ(error_of([] { (void)scalar_type_of(DType::float8_e5m2); }), "LibTorch has no dtype float8_e5m2");
}
#endif

TEST(TorchTensor, ShapesOfAllKinds) {
  EXPECT_EQ(view_of(::torch::tensor(2.5F)).to_string(), "float32[] on cpu");
  EXPECT_EQ(view_of(::torch::empty({0, 4})).to_string(), "float32[0, 4] on cpu");
  EXPECT_EQ(view_of(::torch::zeros({1, 1, 2, 1, 1, 3, 1, 1, 1})).to_string(), "float32[6] on cpu");
}

TEST(TorchTensor, WhatCannotBeViewedIsRejectedWithTheReason) {
  EXPECT_EQ(error_of([] { (void)view_of(at::Tensor()); }), "a tensor is undefined");
  EXPECT_EQ(error_of([] {
              (void)view_of(::torch::ones({2, 3}).t());
            }),
            "a tensor of Float [3, 2] is not contiguous: call contiguous()");
  EXPECT_EQ(error_of([] { (void)view_of(::torch::eye(2).to_sparse()); }),
            "a tensor of Float [2, 2] is sparse, or has another layout that is not strided");
  EXPECT_EQ(error_of([] { (void)view_of(::torch::ones({2}, at::device(at::kMeta))); }),
            "a tensor of Float [2] is on meta; libdlaunch takes tensors of the CPU and of CUDA devices");
  EXPECT_EQ(error_of([] { (void)view_of(at::quantize_per_tensor(::torch::ones({2}), 0.1, 0, at::kQInt8)); }),
            "a tensor of QInt8 [2] has a dtype that libdlaunch does not know");
  EXPECT_EQ(error_of([] { (void)view_of(at::conj(::torch::ones({2}, at::kComplexFloat))); }),
            "a tensor of ComplexFloat [2] is not contiguous: call contiguous()");
}

TEST(TorchTensor, AListComesFromAllThatHoldsTensors) {
  const at::Tensor one = ::torch::ones({1});
  const std::vector<at::Tensor> vector{one, one};
  EXPECT_EQ(Tensors(vector).vec().size(), 2U);
  EXPECT_EQ(Tensors({one, one, one}).vec().size(), 3U);
  EXPECT_EQ(Tensors(at::TensorList(vector)).vec().size(), 2U);
  EXPECT_EQ(Tensors(c10::List<at::Tensor>(at::ArrayRef(vector))).vec().size(), 2U);
  EXPECT_TRUE(Tensors().vec().empty());
}

}  // namespace
}  // namespace dlaunch::torch
