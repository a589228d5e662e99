// The machine's CPUs and the NUMA nodes of its GPUs, as a value, and the function that reads it.
#pragma once

#include <string>
#include <vector>

#include "launcher/topology/cpu_list.h"

namespace dlaunch::launcher {

struct Cpu {
  int id = 0;
  int core = 0;     // the lowest CPU of its core: equal for the threads of one core
  int package = 0;  // socket
  int node = 0;     // NUMA
  int l3 = 0;       // the lowest CPU that shares its last-level cache

  bool operator==(const Cpu&) const = default;
};

struct Gpu {
  std::string name;  // PCI address
  std::string uuid;  // "GPU-...", if known
  int node = -1;     // NUMA; -1: the kernel does not know

  bool operator==(const Gpu&) const = default;
};

struct Topology {
  std::vector<Cpu> cpus;     // online, and allowed for this process; in order
  std::vector<Gpu> gpus;     // in the order of their PCI addresses, which is nvidia-smi's
  bool knows_nodes = false;  // false: all CPUs count as one node

  bool operator==(const Topology&) const = default;
};

// From `root`/sys and `root`/proc/driver/nvidia; if parts are missing there (containers, old kernels), the
// defaults are one node, one package, and one core per CPU. `allowed`: this process's affinity mask.
Topology read_topology(const Cpus& allowed, const std::string& root = "");

}  // namespace dlaunch::launcher
