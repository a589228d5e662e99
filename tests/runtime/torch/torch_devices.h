// LibTorch's devices and streams, for tests on the doubles or on GPUs (tests/runtime/cuda/test_devices.h).
#pragma once

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>

#include <chrono>
#include <string>

#include "tests/runtime/cuda/device_streams.h"

namespace dlaunch::test {

inline at::Device torch_device_of(int rank) {
  return {at::kCUDA, static_cast<at::DeviceIndex>(device_of(rank))};
}

// LibTorch's current stream for as long as it lives. The library's own current stream stays unset.
inline c10::StreamGuard in_stream(cudaStream_t stream, int rank) {
  return c10::StreamGuard(
      c10::Stream(c10::Stream::UNSAFE, torch_device_of(rank), reinterpret_cast<c10::StreamId>(stream)));
}

inline void init_for(int rank, const std::string& backend) { init(rank, std::chrono::seconds(30), backend); }

}  // namespace dlaunch::test
