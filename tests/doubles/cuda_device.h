// The device of the double of the CUDA runtime, for the double of NCCL.
#pragma once

#include "tests/doubles/cuda_memory.h"
#include "tests/doubles/cuda_streams.h"
#include "tests/doubles/pinned_memory.h"

namespace doubles {

// One for the process; lives until its end.
__attribute__((visibility("default"))) DeviceMemory& device_memory();
__attribute__((visibility("default"))) PinnedMemory& pinned_memory();
__attribute__((visibility("default"))) Streams& streams();
// Of a cudaStream_t of the calling thread's device.
__attribute__((visibility("default"))) StreamPointer stream_of(void* handle);
__attribute__((visibility("default"))) int current_device();

// An operation has touched memory that is not there: as with a GPU, every later call fails.
__attribute__((visibility("default"))) void report_illegal_address(const char* what);

}  // namespace doubles
