// Whether this machine can run jobs, and has what debugging needs.
#pragma once

#include <cstdint>

#include "launcher/doctor/finding.h"
#include "launcher/doctor/gpu_facts.h"

namespace dlaunch::launcher {

// The default port of jobs on several hosts.
inline constexpr std::uint16_t usual_port = 29500;

// Looks names up, which may take as long as the name service's own timeouts.
Findings check_machine(const GpuFacts& gpus);

}  // namespace dlaunch::launcher
