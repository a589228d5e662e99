// NCCL's types and operators for ours, and what it cannot do. Pure.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// How NCCL reduces values of a dtype.
struct NcclArithmetic {
  ncclDataType_t type;
  std::size_t units;  // of that type in one value: a complex number has two
  ncclRedOp_t op;     // of premul_sum: the sum, whose operator has to be made with the factor
};

// REQUIRES: why_nccl_cannot() is empty for this dtype and operator.
NcclArithmetic nccl_arithmetic(DType dtype, ReduceOp op);

// One clause; empty: NCCL can carry out such a call. The group has checked what no backend can do.
std::string why_nccl_cannot(const CallSubject& call, int rank);

}  // namespace dlaunch::internal
