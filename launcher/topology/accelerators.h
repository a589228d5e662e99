// Devices that --nproc-per-node counts, one worker for each, without a context of any vendor's library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/flags/settings.h"

namespace dlaunch::launcher {

// What --nproc-per-node may name. gpu and cuda: NVIDIA's GPUs, else AMD's (PyTorch calls both cuda); hip, amd
// and rocm: AMD's; xpu: Intel's; hpu: Habana's; npu: Ascend's.
const std::vector<std::string>& accelerator_names();
bool is_accelerator(std::string_view name);

// How many of them a process of this machine finds: those whose device files or sysfs entries exist, and of
// these as many as the vendor's variable (CUDA_VISIBLE_DEVICES, ...) leaves visible. `root`: of the file
// system, for tests. REQUIRES: is_accelerator(name).
int count_accelerators(std::string_view name, const EnvironmentMap& environment,
                       const std::string& root = "");

// The variables that hide such devices, for messages: "CUDA_VISIBLE_DEVICES".
std::string visibility_variables(std::string_view name);

}  // namespace dlaunch::launcher
