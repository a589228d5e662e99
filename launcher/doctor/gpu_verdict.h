// What will be slow, or fail, with this machine's NVIDIA GPUs. Pure.
#pragma once

#include "launcher/doctor/finding.h"
#include "launcher/doctor/gpu_facts.h"

namespace dlaunch::launcher {

// The GPUs and their driver, then what NCCL uses. One line if the machine has nothing of NVIDIA.
Findings check_gpus(const GpuFacts& facts);

}  // namespace dlaunch::launcher
