#include "launcher/options/binding.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "launcher/flags/value_parsers.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

using CpuTest = std::function<bool(const Cpu&)>;

Error cannot(std::string why, std::string hint) {
  return {ErrorKind::not_found, "cannot bind the workers", "", std::move(why), std::move(hint)};
}

std::vector<int> distinct(const std::vector<Cpu>& cpus, int Cpu::*field) {
  std::set<int> values;
  for (const Cpu& cpu : cpus) values.insert(cpu.*field);
  return {values.begin(), values.end()};
}

std::vector<Cpu> those(const std::vector<Cpu>& cpus, const CpuTest& test) {
  std::vector<Cpu> out;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(out), test);
  return out;
}

Binding binding_of(const std::vector<Cpu>& cpus, std::string place) {
  Binding out;
  for (const Cpu& cpu : cpus) out.cpus.push_back(cpu.id);
  out.cores = static_cast<int>(distinct(cpus, &Cpu::core).size());
  out.place = std::move(place);
  return out;
}

// The share of worker `i` of `n`: whole cores; with more workers than cores, one core, in turn.
std::vector<Cpu> share(const std::vector<Cpu>& cpus, std::size_t i, std::size_t n) {
  const std::vector<int> cores = distinct(cpus, &Cpu::core);
  std::size_t first = i % cores.size();
  std::size_t count = 1;
  if (n <= cores.size()) {
    const std::size_t more = cores.size() % n;
    count = cores.size() / n + (i < more ? 1 : 0);
    first = i * (cores.size() / n) + std::min(i, more);
  }
  const std::set<int> mine(cores.begin() + static_cast<std::ptrdiff_t>(first),
                           cores.begin() + static_cast<std::ptrdiff_t>(first + count));
  return those(cpus, [&](const Cpu& cpu) { return mine.contains(cpu.core); });
}

std::vector<int> nodes_of(const Cpus& cpus, const Topology& topology) {
  return distinct(those(topology.cpus,
                        [&](const Cpu& cpu) { return std::binary_search(cpus.begin(), cpus.end(), cpu.id); }),
                  &Cpu::node);
}

std::string cores_word(const Binding& binding) {
  return binding.cores == 1 ? "1 core" : std::to_string(binding.cores) + " cores";
}

// --- where a worker's GPU is ---

Result<const Gpu*> gpu_called(const std::string& name, const Topology& topology) {
  const auto index = parse_number<std::size_t>(name);
  if (index && *index < topology.gpus.size()) return &topology.gpus[*index];
  const auto found = std::find_if(topology.gpus.begin(), topology.gpus.end(), [&](const Gpu& gpu) {
    return !name.empty() && name.starts_with("GPU-") && gpu.uuid.starts_with(name);
  });
  if (found != topology.gpus.end()) return &*found;
  return cannot("CUDA_VISIBLE_DEVICES names GPU '" + name + "', but none of this machine's " +
                    std::to_string(topology.gpus.size()) + " GPUs has that number or UUID",
                "use numbers or UUIDs as nvidia-smi -L shows them");
}

Result<std::vector<const Gpu*>> gpus_of_workers(int workers, const Topology& topology,
                                                const std::optional<std::string>& visible) {
  std::vector<const Gpu*> out;
  if (!visible) {
    for (const Gpu& gpu : topology.gpus) out.push_back(&gpu);
  } else {
    for (const std::string& name : comma_list(*visible)) {
      auto gpu = gpu_called(name, topology);
      if (!gpu) return std::move(gpu).error();
      out.push_back(*gpu);
    }
  }
  if (out.size() < static_cast<std::size_t>(workers)) {
    return cannot(pluralize(workers, "worker") + ", but only " + pluralize(out.size(), "usable GPU"),
                  "start fewer workers, or use --bind=core");
  }
  out.resize(static_cast<std::size_t>(workers));
  return out;
}

// --- the NUMA node of each worker ---

struct Home {
  int node = 0;
  std::string place;  // in words
};

Result<std::vector<Home>> homes_near_gpus(int workers, const Topology& topology,
                                          const std::optional<std::string>& visible) {
  auto gpus = gpus_of_workers(workers, topology, visible);
  if (!gpus) return std::move(gpus).error();
  const std::vector<int> nodes = distinct(topology.cpus, &Cpu::node);
  std::vector<Home> out;
  for (const Gpu* gpu : *gpus) {
    // The kernel reports -1 on machines with one node, and if the firmware does not know it.
    const int node = gpu->node < 0 && nodes.size() == 1 ? nodes.front() : gpu->node;
    if (node < 0) {
      return cannot("the kernel does not know which NUMA node GPU " + gpu->name + " is attached to",
                    "use --bind=numa or --bind=core");
    }
    out.push_back({node, "NUMA node " + std::to_string(node) + ", near GPU " + gpu->name});
  }
  return out;
}

// Blocks of ranks: the first half of the workers on the first half of the nodes.
std::vector<Home> homes_in_blocks(int workers, const Topology& topology) {
  const std::vector<int> nodes = distinct(topology.cpus, &Cpu::node);
  std::vector<Home> out;
  for (int i = 0; i < workers; ++i) {
    const auto at = static_cast<std::size_t>(i) * nodes.size() / static_cast<std::size_t>(workers);
    out.push_back({nodes[at], "NUMA node " + std::to_string(nodes[at])});
  }
  return out;
}

// --- by kind ---

std::vector<Binding> bind_to_cores(int workers, const Topology& topology) {
  std::vector<Binding> out;
  for (int i = 0; i < workers; ++i) {
    Binding binding =
        binding_of(share(topology.cpus, static_cast<std::size_t>(i), static_cast<std::size_t>(workers)), "");
    binding.place = cores_word(binding);
    out.push_back(std::move(binding));
  }
  return out;
}

// The CPUs of its home that a worker gets; it is number `turn` of `turns` workers there.
Binding bind_at_home(Bind bind, const Home& home, const Topology& topology, std::size_t turn,
                     std::size_t turns) {
  const std::vector<Cpu> local = those(topology.cpus, [&](const Cpu& cpu) { return cpu.node == home.node; });
  if (local.empty()) return {};
  if (bind == Bind::socket) {
    const int package = local.front().package;
    return binding_of(those(topology.cpus, [&](const Cpu& cpu) { return cpu.package == package; }),
                      "package " + std::to_string(package) + " with " + home.place);
  }
  if (bind == Bind::exclusive) {
    Binding binding = binding_of(share(local, turn, turns), "");
    binding.place = cores_word(binding) + " of " + home.place;
    return binding;
  }
  if (bind == Bind::core_complex) {
    const std::vector<int> caches = distinct(local, &Cpu::l3);
    const int cache = caches[turn % caches.size()];
    return binding_of(those(local, [&](const Cpu& cpu) { return cpu.l3 == cache; }),
                      "core complex " + std::to_string(turn % caches.size()) + " of " + home.place);
  }
  return binding_of(local, home.place);
}

}  // namespace

Result<std::vector<Binding>> bind_workers(Bind bind, int workers, const Topology& topology,
                                          const std::optional<std::string>& visible_gpus) {
  if (bind == Bind::none) return std::vector<Binding>{};
  if (topology.cpus.empty()) return cannot("no CPU is both online and allowed", "");
  if (bind == Bind::core) return bind_to_cores(workers, topology);

  std::vector<Home> homes;
  const bool near_gpus = bind == Bind::gpu || (bind != Bind::numa && !topology.gpus.empty());
  if (near_gpus) {
    auto near = homes_near_gpus(workers, topology, visible_gpus);
    if (!near) return std::move(near).error();
    homes = std::move(*near);
  } else {
    homes = homes_in_blocks(workers, topology);
  }
  std::map<int, std::size_t> living;  // workers on a node
  for (const Home& home : homes) ++living[home.node];
  std::map<int, std::size_t> seen;
  std::vector<Binding> out;
  for (std::size_t i = 0; i < homes.size(); ++i) {
    out.push_back(bind_at_home(bind, homes[i], topology, seen[homes[i].node]++, living[homes[i].node]));
    if (topology.knows_nodes) out.back().memory_nodes = nodes_of(out.back().cpus, topology);
    if (out.back().cpus.empty()) {
      return cannot("this process may use none of the CPUs of " + homes[i].place + " (local rank " +
                        std::to_string(i) + ")",
                    "widen the mask (taskset, cpuset, --cpus-per-task), or use --bind=core");
    }
  }
  return out;
}

}  // namespace dlaunch::launcher
