// The training on a GPU. It is in a module of its own, so that the program also starts where there is no
// CUDA: libdlaunch loads CUDA's runtime when it needs it, and so does this program.
#pragma once

#include <cstddef>
#include <memory>

#include "examples/train_mnist/device.h"
#include "examples/train_mnist/idx.h"

namespace mnist {

// The module's only entry: a new device for this rank of its host. Throws std::runtime_error.
using MakeCudaDevice = Device*(const Dataset& train, const Dataset& test, std::size_t local_rank);
inline constexpr const char* make_cuda_device_name = "train_mnist_make_cuda_device";

// The GPU of this rank of its host; ranks share GPUs if there are too few. It copies the data sets. From then
// on the calling thread's current stream (dlaunch/stream.h) is the device's. Throws std::runtime_error, with
// what to do, if this build has no module for CUDA, its libraries are not found, or there is no GPU.
std::unique_ptr<Device> open_cuda_device(const Dataset& train, const Dataset& test, std::size_t local_rank);

}  // namespace mnist
