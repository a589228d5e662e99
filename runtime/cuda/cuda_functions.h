// The entry points of CUDA's runtime that dlaunch uses. Nothing links it: the table is filled when the
// process needs it, so that one build works with all versions, and on machines that have none.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace dlaunch::internal {

// clang-format off
// In CUDA's runtime since version 11.
#define DLAUNCH_CUDA_FUNCTIONS(apply)         \
  apply(cudaDeviceGetAttribute)               \
  apply(cudaDeviceGetPCIBusId)                \
  apply(cudaDeviceGetStreamPriorityRange)     \
  apply(cudaDriverGetVersion)                 \
  apply(cudaEventCreateWithFlags)             \
  apply(cudaEventDestroy)                     \
  apply(cudaEventQuery)                       \
  apply(cudaEventRecord)                      \
  apply(cudaFree)                             \
  apply(cudaFreeHost)                         \
  apply(cudaGetDevice)                        \
  apply(cudaGetDeviceCount)                   \
  apply(cudaGetErrorString)                   \
  apply(cudaGetLastError)                     \
  apply(cudaMemcpyAsync)                      \
  apply(cudaMemsetAsync)                      \
  apply(cudaSetDevice)                        \
  apply(cudaStreamCreateWithPriority)         \
  apply(cudaStreamDestroy)                    \
  apply(cudaStreamIsCapturing)                \
  apply(cudaStreamWaitEvent)                  \
  apply(cudaThreadExchangeStreamCaptureMode)
// clang-format on

struct CudaFunctions {
  // In C++ the header has overloads of these, too.
  cudaError_t (*cudaMalloc)(void** memory, std::size_t bytes) = nullptr;
  cudaError_t (*cudaHostAlloc)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
#define DLAUNCH_DECLARE(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  DLAUNCH_CUDA_FUNCTIONS(DLAUNCH_DECLARE)
#undef DLAUNCH_DECLARE
};

}  // namespace dlaunch::internal
