// The entry points of CUDA's runtime and of NCCL that this module uses. Nothing links these libraries: the
// table is filled when the process needs it, so that one build works with all their versions, and on machines
// that have none.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

namespace dlaunch::internal {

// clang-format off
// In CUDA's runtime since version 11.
#define DLAUNCH_CUDA_FUNCTIONS(apply)         \
  apply(cudaDeviceGetPCIBusId)                \
  apply(cudaDeviceGetStreamPriorityRange)     \
  apply(cudaDriverGetVersion)                 \
  apply(cudaEventCreateWithFlags)             \
  apply(cudaEventDestroy)                     \
  apply(cudaEventQuery)                       \
  apply(cudaEventRecord)                      \
  apply(cudaFree)                             \
  apply(cudaGetDevice)                        \
  apply(cudaGetDeviceCount)                   \
  apply(cudaGetErrorString)                   \
  apply(cudaGetLastError)                     \
  apply(cudaMemsetAsync)                      \
  apply(cudaSetDevice)                        \
  apply(cudaStreamCreateWithPriority)         \
  apply(cudaStreamDestroy)                    \
  apply(cudaStreamIsCapturing)                \
  apply(cudaStreamWaitEvent)                  \
  apply(cudaThreadExchangeStreamCaptureMode)

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

struct NcclFunctions {
  // In C++ the header has an overload of it, too.
  cudaError_t (*cudaMalloc)(void** memory, std::size_t bytes) = nullptr;
#define DLAUNCH_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  DLAUNCH_CUDA_FUNCTIONS(DLAUNCH_DECLARE)
  DLAUNCH_NCCL_FUNCTIONS(DLAUNCH_DECLARE)
#undef DLAUNCH_DECLARE
};

}  // namespace dlaunch::internal
