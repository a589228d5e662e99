// Counts the devices for --nproc-per-node, one worker for each, without using any vendor's library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/flags/settings.h"

namespace dlaunch::launcher {

// The device names of --nproc-per-node. gpu and cuda: NVIDIA's GPUs, else AMD's (PyTorch calls both cuda);
// hip, amd and rocm: AMD's; xpu: Intel's; hpu: Habana's; npu: Ascend's.
const std::vector<std::string>& accelerator_names();
bool is_accelerator(std::string_view name);

// The number of such devices that a process of this machine can use: those with device files or sysfs
// entries, limited by the vendor's variable (CUDA_VISIBLE_DEVICES, ...). `root`: of the file system, for
// tests. REQUIRES: is_accelerator(name).
int count_accelerators(std::string_view name, const EnvironmentMap& environment,
                       const std::string& root = "");

// The variables that hide such devices, for messages: "CUDA_VISIBLE_DEVICES".
std::string visibility_variables(std::string_view name);

}  // namespace dlaunch::launcher
