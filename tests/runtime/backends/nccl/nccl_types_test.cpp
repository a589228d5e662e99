#include "runtime/backends/nccl/nccl_types.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(NcclTypes, AComplexNumberIsTwoReals) {
  const NcclArithmetic sum = nccl_arithmetic(DType::complex128, ReduceOp::sum);
  EXPECT_EQ(sum.type, ncclFloat64);
  EXPECT_EQ(sum.units, 2U);
  EXPECT_EQ(sum.op, ncclSum);
}

TEST(NcclTypes, TheSumOfBoolsIsTheirOr) {
  EXPECT_EQ(nccl_arithmetic(DType::boolean, ReduceOp::sum).op, ncclMax);
  EXPECT_EQ(nccl_arithmetic(DType::boolean, ReduceOp::bor).op, ncclMax);
  EXPECT_EQ(nccl_arithmetic(DType::boolean, ReduceOp::product).op, ncclMin);
  EXPECT_EQ(nccl_arithmetic(DType::boolean, ReduceOp::band).op, ncclMin);
  EXPECT_EQ(nccl_arithmetic(DType::boolean, ReduceOp::sum).type, ncclUint8);
}

TEST(NcclTypes, EachOperatorIsNccls) {
  EXPECT_EQ(nccl_arithmetic(DType::float16, ReduceOp::avg).op, ncclAvg);
  EXPECT_EQ(nccl_arithmetic(DType::float16, ReduceOp::avg).type, ncclFloat16);
  EXPECT_EQ(nccl_arithmetic(DType::bfloat16, ReduceOp::product).op, ncclProd);
  EXPECT_EQ(nccl_arithmetic(DType::int32, ReduceOp::min).op, ncclMin);
  EXPECT_EQ(nccl_arithmetic(DType::uint8, ReduceOp::max).op, ncclMax);
  EXPECT_EQ(nccl_arithmetic(DType::float32, ReduceOp::premul_sum).op, ncclSum);
}

TEST(NcclTypes, Float8DependsOnNcclAndOnTheDevice) {
#if NCCL_VERSION_CODE >= 22400
  EXPECT_EQ(nccl_arithmetic(DType::float8_e4m3, ReduceOp::sum).type, ncclFloat8e4m3);
  EXPECT_EQ(nccl_arithmetic(DType::float8_e5m2, ReduceOp::avg).type, ncclFloat8e5m2);
  EXPECT_EQ(nccl_arithmetic(DType::float8_e5m2, ReduceOp::avg).op, ncclAvg);
  const auto reason = [](int version, int capability) {
    return why_nccl_cannot_reduce_float8(DType::float8_e4m3, version, {Device::Kind::cuda, 1}, capability);
  };
  EXPECT_EQ(reason(22400, 90), "");
  EXPECT_EQ(reason(23203, 120), "");
  EXPECT_EQ(reason(22399, 90),
            "NCCL 2.23 does not reduce float8_e4m3fn: use NCCL 2.24 or newer, or backend gloo");
  EXPECT_EQ(
      reason(22400, 89),
      "NCCL reduces float8_e4m3fn on devices of compute capability 9.0 or higher, and cuda:1 has 8.9: use "
      "float16, or backend gloo");
#else
  EXPECT_EQ(why_nccl_cannot_reduce_float8(DType::float8_e5m2, NCCL_VERSION_CODE, {}, 90),
            "this libdlaunch was built with NCCL before 2.24, which has no float8_e5m2: use backend gloo");
#endif
  EXPECT_EQ(why_nccl_cannot({.dtype = DType::float8_e4m3, .device = Device{Device::Kind::cuda, 0}}, 0), "")
      << "it only moves them";
}

TEST(NcclTypes, WhatNcclCannotDoHasAReason) {
  const auto reduction = [](DType dtype, ReduceOp op) {
    return why_nccl_cannot({.dtype = dtype, .op = op}, 0);
  };
  EXPECT_EQ(reduction(DType::float32, ReduceOp::sum), "");
  EXPECT_EQ(reduction(DType::boolean, ReduceOp::bor), "");
  EXPECT_EQ(reduction(DType::int32, ReduceOp::bxor),
            "NCCL has no bitwise bxor: reduce a tensor on the CPU with backend gloo");
  EXPECT_NE(reduction(DType::boolean, ReduceOp::bxor), "");
  EXPECT_EQ(reduction(DType::int16, ReduceOp::sum), "NCCL does not reduce int16: use int32, or backend gloo");
  EXPECT_EQ(why_nccl_cannot({.dtype = DType::int16}, 0), "");  // it only moves them
}

TEST(NcclTypes, MessagesHaveAPeerAndNoTag) {
  const auto message = [](int peer, Tag tag) {
    return why_nccl_cannot({.is_message = true, .tag = tag, .peer = peer}, 1);
  };
  EXPECT_EQ(message(0, 0), "");
  EXPECT_EQ(message(any_source, 0), "NCCL cannot receive from any rank: name the source");
  EXPECT_EQ(message(0, 7), "NCCL has no tags: messages between two ranks match in the order of their calls");
  EXPECT_EQ(message(1, 0), "a rank cannot send to itself over NCCL: copy the tensor");
}

}  // namespace
}  // namespace dlaunch::internal
