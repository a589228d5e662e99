// Finds out about this machine's NVIDIA GPUs, by the files of the kernel and nvidia-smi. NVIDIA's libraries
// are not loaded: dlaunch is linked statically.
#pragma once

#include <string>

#include "launcher/doctor/gpu_facts.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// How long nvidia-smi may take for one answer. Without persistence mode it starts the driver on each GPU
// first.
inline constexpr Duration nvidia_smi_patience = std::chrono::seconds(20);

// Starts nvidia-smi up to seven times; after one that does not answer, not again. `root`: of the file system,
// for tests.
GpuFacts find_gpu_facts(Duration patience = nvidia_smi_patience, const std::string& root = "");

}  // namespace dlaunch::launcher
