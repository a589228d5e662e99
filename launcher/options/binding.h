// Which CPUs each worker of this node gets. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/options/options.h"
#include "launcher/topology/topology.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct Binding {
  Cpus cpus;
  int cores = 0;                    // how many of them: threads of one core count once
  std::string place;                // in words: "cores 0-3", "NUMA node 1, near GPU 0000:17:00.0"
  std::vector<int> memory_nodes{};  // NUMA nodes that its memory comes from; empty: any

  bool operator==(const Binding&) const = default;
};

// By local rank; empty for Bind::none.
//
//   core          the allowed cores, in order, divided evenly (the lowest ranks get one more); with more
//                 workers than cores, several share one
//   numa          all CPUs of a NUMA node; consecutive ranks share a node
//   gpu           all CPUs of the NUMA node that the worker's GPU is attached to
//   node          the same; like numa if there is no GPU
//   socket        all CPUs of that node's package
//   exclusive     the cores of that node, divided among the workers there
//   core_complex  the CPUs of one last-level cache of that node; its caches in turn
//
// All but core also set the NUMA nodes that a worker's memory comes from: those of its CPUs, if the kernel
// reports them.
//
// Worker n's GPU is the nth of `visible_gpus` (CUDA_VISIBLE_DEVICES: numbers or UUIDs; unset: all). Only
// allowed CPUs are used; if none is left, the error names the worker and the reason.
Result<std::vector<Binding>> bind_workers(Bind bind, int workers, const Topology& topology,
                                          const std::optional<std::string>& visible_gpus);

}  // namespace dlaunch::launcher
