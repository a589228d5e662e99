// NCCL's types and operators for ours, and what it cannot do.
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

// Pure. REQUIRES: why_nccl_cannot() is empty for this dtype and operator.
NcclArithmetic nccl_arithmetic(DType dtype, ReduceOp op);

// One clause; empty: NCCL can carry out such a call. The group has checked what no backend can do. Pure, but
// for reductions of float8: these depend on the NCCL that was found, and on the device of the call.
std::string why_nccl_cannot(const CallSubject& call, int rank);

// The same for reductions of a float8 type with that version of NCCL (22809 is 2.28.9) on a device of that
// compute capability (90 is 9.0). Pure.
std::string why_nccl_cannot_reduce_float8(DType dtype, int version, Device device, int capability);

}  // namespace dlaunch::internal
