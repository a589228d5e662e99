// The entry points of NCCL that this module uses, and those of CUDA's runtime. NCCL is found as that one is.
#pragma once

#include <nccl.h>

#include "runtime/cuda/cuda_functions.h"

namespace dlaunch::internal {

// clang-format off
// In NCCL since version 2.19.
#define DLAUNCH_NCCL_FUNCTIONS(apply)  \
  apply(ncclAllGather)                 \
  apply(ncclAllReduce)                 \
  apply(ncclBroadcast)                 \
  apply(ncclCommAbort)                 \
  apply(ncclCommDestroy)               \
  apply(ncclCommFinalize)              \
  apply(ncclCommGetAsyncError)         \
  apply(ncclCommInitRankConfig)        \
  apply(ncclCommSplit)                 \
  apply(ncclGetErrorString)            \
  apply(ncclGetLastError)              \
  apply(ncclGetUniqueId)               \
  apply(ncclGetVersion)                \
  apply(ncclGroupEnd)                  \
  apply(ncclGroupStart)                \
  apply(ncclRecv)                      \
  apply(ncclRedOpCreatePreMulSum)      \
  apply(ncclRedOpDestroy)              \
  apply(ncclReduce)                    \
  apply(ncclReduceScatter)             \
  apply(ncclSend)
// clang-format on

struct NcclFunctions : CudaFunctions {
  // In newer ones only, else null: ends the operations of a communicator and keeps the communicator. Its
  // declaration is newer than the headers that this may be compiled with.
  ncclResult_t (*ncclCommRevoke)(ncclComm_t communicator, int flags) = nullptr;
#define DLAUNCH_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  DLAUNCH_NCCL_FUNCTIONS(DLAUNCH_DECLARE)
#undef DLAUNCH_DECLARE
};

}  // namespace dlaunch::internal
