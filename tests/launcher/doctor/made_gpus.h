// Facts of machines that have nothing to complain about, for tests that change one of them.
#pragma once

#include "launcher/doctor/gpu_facts.h"
#include "launcher/doctor/nvidia_text.h"
#include "tests/launcher/doctor/nvidia_samples.h"

namespace dlaunch::launcher {

inline GpuFacts healthy(int gpus) {
  GpuFacts facts;
  facts.is_module_loaded = true;
  facts.driver = "580.159.04";
  facts.is_driver_open = true;
  facts.has_unified_memory = true;
  facts.usable = gpus;
  facts.query.program = "/usr/bin/nvidia-smi";
  for (int i = 0; i < gpus; ++i) {
    const std::string address = "0000:0" + std::to_string(i) + ":00.0";
    facts.on_bus.push_back(address);
    facts.of_driver.push_back(address);
    facts.query.gpus.push_back(
        {i, "NVIDIA H100 80GB HBM3", address, 81559, 5, 5, 16, 16, true, "Default", false, 0, 1});
  }
  if (gpus == 8) facts.query.topology = topology_from(samples::eight_gpu_topology);
  facts.nccl = {"/usr/lib/libnccl.so.2", 23203, "13.4"};
  return facts;
}

// Two sockets, no NVLink.
inline GpuFacts healthy_without_nvlink() {
  GpuFacts facts = healthy(4);
  facts.query.topology = topology_from(samples::pcie_topology);
  return facts;
}

}  // namespace dlaunch::launcher
