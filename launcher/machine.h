// What this machine has: processors, GPUs, a name, programs.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

int allowed_cpus();  // those this process may use, not all there are
int visible_gpus();  // NVIDIA's; honours CUDA_VISIBLE_DEVICES; 0 where there is no driver. Creates no CUDA
                     // context
std::string host_name();

// Finds what execvp would run. The error says whether it is missing, a folder, or may not be executed.
Result<std::string> find_program(const std::string& name);

}  // namespace dlaunch::launcher
