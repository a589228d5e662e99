// The GPUs in `dlaunch doctor --json`. Pure.
#pragma once

#include <string>

#include "launcher/doctor/gpu_facts.h"

namespace dlaunch::launcher {

// One object; what is not known is null.
std::string gpu_json(const GpuFacts& facts);

}  // namespace dlaunch::launcher
