// How GPUs reach each other and the network: what makes NCCL slow. Pure.
#pragma once

#include <string>

#include "launcher/doctor/finding.h"
#include "launcher/doctor/gpu_facts.h"

namespace dlaunch::launcher {

// "NVLink between all", for the line of the GPUs; empty: there is one GPU, or it is not known.
std::string describe_links(const GpuFacts& facts);

// Between GPUs; from each GPU to the network; nothing if there is no GPU.
Findings check_gpu_links(const GpuFacts& facts);

// The ports of InfiniBand and RoCE, and whether they reach the memory of GPUs; nothing if there is no port.
Findings check_fabric(const GpuFacts& facts);

}  // namespace dlaunch::launcher
