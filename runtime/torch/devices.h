// Devices of LibTorch's tensors as the library's, and their memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "dlaunch/tensor.h"

namespace dlaunch::torch::internal {

// Why tensors there cannot be used, as the rest of a sentence about one; none: they can. CUDA tensors need
// the streams of LibTorch (set_stream_source), which a LibTorch without CUDA has not got.
std::optional<std::string> why_not_on(const at::Device& device);

// REQUIRES: why_not_on() is none.
Device device_of(const at::Device& device);
at::Device device_of(const Device& device);

// The memory of a tensor on a CUDA device, when it is freed, is not used again before the device has come to
// this place in the calling thread's current stream.
void keep_for_current_stream(const at::Tensor& tensor);

}  // namespace dlaunch::torch::internal
