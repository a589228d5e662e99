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
  std::vector<int> memory_nodes{};  // that its memory is to come from; empty: any

  bool operator==(const Binding&) const = default;
};

// By local rank; empty for Bind::none.
//
//   core          the allowed cores, in order, shared out evenly (the lowest ranks get one more); with more
//                 workers than cores, several share one
//   numa          all CPUs of a NUMA node; nodes are given out in blocks of ranks
//   gpu           all CPUs of the NUMA node that the worker's GPU is attached to
//   node          the same, and like numa where there is no GPU
//   socket        all CPUs of that node's package
//   exclusive     the cores of that node, shared out among the workers there
//   core_complex  one last-level cache of that node, those of one node in turn
//
// All but core, which does not ask where a worker is, also say where its memory is to come from: the NUMA
// nodes of its CPUs, where the kernel tells them.
//
// Worker n's GPU is the nth of `visible_gpus` (CUDA_VISIBLE_DEVICES: numbers or UUIDs; unset: all). Only
// allowed CPUs are given out; where none is left, the error says which worker and why.
Result<std::vector<Binding>> bind_workers(Bind bind, int workers, const Topology& topology,
                                          const std::optional<std::string>& visible_gpus);

}  // namespace dlaunch::launcher
