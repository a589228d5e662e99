// Devices of LibTorch's tensors as the library's.
#pragma once

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

}  // namespace dlaunch::torch::internal
