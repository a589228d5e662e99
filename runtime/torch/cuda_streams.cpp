// The current streams of LibTorch's threads are those of the library's calls. Compiled with a LibTorch that
// has CUDA.

#include <c10/cuda/CUDAStream.h>

#include "dlaunch/stream.h"

namespace dlaunch::torch::internal {

namespace {

Stream stream_of_libtorch(int device) {
  return {c10::cuda::getCurrentCUDAStream(static_cast<c10::DeviceIndex>(device)).stream()};
}

[[maybe_unused]] const bool is_source = (set_stream_source(stream_of_libtorch), true);

}  // namespace

}  // namespace dlaunch::torch::internal
