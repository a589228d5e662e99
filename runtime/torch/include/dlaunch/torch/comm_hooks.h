// The hooks of dlaunch/data_parallel.h that send half of the bytes, for gradients on the CPU and on a GPU.
#pragma once

#include "dlaunch/data_parallel.h"
#include "dlaunch/export.h"

namespace dlaunch::torch {
inline namespace v1 {

// As the functions of these names in the core library. Gradients on a GPU are converted there, in the order
// of the current streams of the thread that starts the reduction and of the one that finishes the step.
DLAUNCH_EXPORT CommHook fp16_compress_hook();
DLAUNCH_EXPORT CommHook bf16_compress_hook();

}  // namespace v1
}  // namespace dlaunch::torch
