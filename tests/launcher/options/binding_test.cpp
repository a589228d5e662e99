// Which CPUs each worker gets on machines of several kinds.

#include "launcher/options/binding.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

// As large servers count them: first all cores, package by package, then their second threads.
struct Shape {
  int packages = 1;
  int nodes_per_package = 1;
  int caches_per_node = 1;
  int cores_per_cache = 4;
  int threads = 1;
};

Topology machine(const Shape& shape, std::vector<int> gpu_nodes = {}) {
  Topology out;
  const int nodes = shape.packages * shape.nodes_per_package;
  const int cores_per_node = shape.caches_per_node * shape.cores_per_cache;
  const int cores = nodes * cores_per_node;
  for (int id = 0; id < cores * shape.threads; ++id) {
    const int core = id % cores;
    out.cpus.push_back({id, core, core / (cores_per_node * shape.nodes_per_package), core / cores_per_node,
                        core / shape.cores_per_cache * shape.cores_per_cache});
  }
  out.knows_nodes = true;
  for (std::size_t i = 0; i < gpu_nodes.size(); ++i)
    out.gpus.push_back(
        {"0000:0" + std::to_string(i) + ":00.0", "GPU-" + std::to_string(i) + "abc", gpu_nodes[i]});
  return out;
}

std::vector<std::string> lists(Bind bind, int workers, const Topology& topology,
                               const std::optional<std::string>& visible = std::nullopt) {
  auto bound = bind_workers(bind, workers, topology, visible);
  if (!bound) return {bound.error().message()};
  std::vector<std::string> out;
  for (const Binding& binding : *bound) out.push_back(to_list(binding.cpus));
  return out;
}

using Lists = std::vector<std::string>;

const Shape desktop{1, 1, 1, 8, 1};
const Shape two_sockets{2, 1, 2, 4, 2};  // 16 cores, 32 CPUs, caches of 4 cores
const Shape four_nodes{2, 2, 1, 4, 2};   // 16 cores, 32 CPUs, two nodes a package

TEST(Binding, NoneLeavesWorkersUnbound) {
  EXPECT_TRUE(bind_workers(Bind::none, 4, machine(desktop), {})->empty());
}

TEST(Binding, CoresAreSharedOutEvenly) {
  EXPECT_EQ(lists(Bind::core, 4, machine(desktop)), (Lists{"0,1", "2,3", "4,5", "6,7"}));
  EXPECT_EQ(lists(Bind::core, 3, machine(desktop)), (Lists{"0-2", "3-5", "6,7"}));
  EXPECT_EQ(lists(Bind::core, 1, machine(desktop)), (Lists{"0-7"}));
  // Threads of one core stay together.
  EXPECT_EQ(lists(Bind::core, 4, machine(two_sockets)),
            (Lists{"0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"}));
  auto bound = bind_workers(Bind::core, 4, machine(two_sockets), {});
  EXPECT_EQ(bound->front().cores, 4);
  EXPECT_EQ(bound->front().place, "4 cores");
}

TEST(Binding, MoreWorkersThanCoresShareThem) {
  EXPECT_EQ(lists(Bind::core, 5, machine({1, 1, 1, 2, 2})), (Lists{"0,2", "1,3", "0,2", "1,3", "0,2"}));
}

TEST(Binding, NumaNodesAreGivenOutInBlocks) {
  EXPECT_EQ(lists(Bind::numa, 4, machine(two_sockets)),
            (Lists{"0-7,16-23", "0-7,16-23", "8-15,24-31", "8-15,24-31"}));
  EXPECT_EQ(lists(Bind::numa, 2, machine(four_nodes)), (Lists{"0-3,16-19", "8-11,24-27"}));
  EXPECT_EQ(lists(Bind::numa, 3, machine(desktop)), (Lists{"0-7", "0-7", "0-7"}));
}

TEST(Binding, NearTheGpu) {
  const Topology crossed = machine(two_sockets, {1, 0, 1, 0});
  EXPECT_EQ(lists(Bind::gpu, 2, crossed), (Lists{"8-15,24-31", "0-7,16-23"}));
  EXPECT_EQ(lists(Bind::node, 2, crossed), (Lists{"8-15,24-31", "0-7,16-23"}));
  EXPECT_EQ(lists(Bind::gpu, 2, crossed, "3,2"), (Lists{"0-7,16-23", "8-15,24-31"}));
  EXPECT_EQ(lists(Bind::gpu, 1, crossed, "GPU-1abc"), (Lists{"0-7,16-23"}));
  EXPECT_EQ(bind_workers(Bind::gpu, 1, crossed, {})->front().place, "NUMA node 1, near GPU 0000:00:00.0");
  EXPECT_EQ(lists(Bind::gpu, 1, machine(desktop, {-1})), (Lists{"0-7"})) << "one node: no question";
}

TEST(Binding, TorchrunsKinds) {
  const Topology topology = machine(four_nodes, {0, 1, 2, 3});
  EXPECT_EQ(lists(Bind::socket, 4, topology), (Lists{"0-7,16-23", "0-7,16-23", "8-15,24-31", "8-15,24-31"}));
  // Three GPUs at one node: its eight cores are 3 + 3 + 2.
  EXPECT_EQ(lists(Bind::exclusive, 3, machine(two_sockets, {0, 0, 0})),
            (Lists{"0-2,16-18", "3-5,19-21", "6,7,22,23"}));
  EXPECT_EQ(lists(Bind::core_complex, 4, machine(two_sockets, {0, 1, 0, 1})),
            (Lists{"0-3,16-19", "8-11,24-27", "4-7,20-23", "12-15,28-31"}));
  EXPECT_EQ(lists(Bind::core_complex, 3, machine(two_sockets, {0, 0, 0})),
            (Lists{"0-3,16-19", "4-7,20-23", "0-3,16-19"}))
      << "in turn";
}

TEST(Binding, TorchrunsKindsWithoutGpus) {
  EXPECT_EQ(lists(Bind::node, 2, machine(two_sockets)), (Lists{"0-7,16-23", "8-15,24-31"}));
  EXPECT_EQ(lists(Bind::exclusive, 4, machine(two_sockets)),
            (Lists{"0-3,16-19", "4-7,20-23", "8-11,24-27", "12-15,28-31"}));
  EXPECT_EQ(lists(Bind::core_complex, 2, machine(desktop)), (Lists{"0-7", "0-7"}));
}

TEST(Binding, OnlyAllowedCpusAreGivenOut) {
  Topology restricted = machine(two_sockets, {0, 1});
  std::erase_if(restricted.cpus, [](const Cpu& cpu) { return cpu.id != 2 && cpu.id != 3 && cpu.id != 18; });
  EXPECT_EQ(lists(Bind::core, 2, restricted), (Lists{"2,18", "3"}));
  EXPECT_EQ(lists(Bind::numa, 2, restricted), (Lists{"2,3,18", "2,3,18"}));
  EXPECT_EQ(lists(Bind::gpu, 1, restricted), (Lists{"2,3,18"}));
  EXPECT_EQ(lists(Bind::gpu, 2, restricted),
            (Lists{"cannot bind the workers: this process may use none of the CPUs of NUMA node 1, near GPU "
                   "0000:01:00.0 "
                   "(local rank 1); widen the mask (taskset, cpuset, --cpus-per-task), or use --bind=core"}));
}

TEST(Binding, MemoryComesFromTheNodesOfTheCpus) {
  const auto nodes = [](Bind bind, int workers, const Topology& topology) {
    auto bound = bind_workers(bind, workers, topology, {});
    std::vector<std::vector<int>> out;
    for (const Binding& binding : *bound) out.push_back(binding.memory_nodes);
    return out;
  };
  using Nodes = std::vector<std::vector<int>>;
  EXPECT_EQ(nodes(Bind::numa, 3, machine(two_sockets)), (Nodes{{0}, {0}, {1}}));
  EXPECT_EQ(nodes(Bind::core, 2, machine(two_sockets)), (Nodes{{}, {}}));
  EXPECT_EQ(nodes(Bind::gpu, 2, machine(two_sockets, {1, 0})), (Nodes{{1}, {0}}));
  EXPECT_EQ(nodes(Bind::exclusive, 2, machine(two_sockets, {1, 1})), (Nodes{{1}, {1}}));
  EXPECT_EQ(nodes(Bind::core_complex, 2, machine(two_sockets)), (Nodes{{0}, {1}}));
  EXPECT_EQ(nodes(Bind::socket, 2, machine(four_nodes)), (Nodes{{0, 1}, {2, 3}}));

  Topology partly = machine(four_nodes);
  std::erase_if(partly.cpus, [](const Cpu& cpu) { return cpu.node == 0; });
  EXPECT_EQ(nodes(Bind::socket, 1, partly), (Nodes{{1}})) << "none of the package's other CPUs is allowed";

  Topology untold = machine(desktop);
  untold.knows_nodes = false;
  EXPECT_EQ(nodes(Bind::numa, 1, untold), (Nodes{{}})) << "node 0 would be a guess";
}

TEST(Binding, ImpossibleBindingIsReported) {
  EXPECT_EQ(lists(Bind::gpu, 1, machine(desktop)), (Lists{"cannot bind the workers: 1 worker, but only "
                                                          "0 usable GPUs; start fewer workers, or "
                                                          "use --bind=core"}));
  EXPECT_EQ(lists(Bind::gpu, 2, machine(desktop, {0, 0}), "1"),
            (Lists{"cannot bind the workers: 2 workers, but only 1 usable GPU; start fewer "
                   "workers, or "
                   "use --bind=core"}));
  EXPECT_NE(lists(Bind::gpu, 1, machine(desktop, {0}), "7")
                .front()
                .find("names GPU '7', but none of this machine's 1"),
            std::string::npos);
  EXPECT_NE(lists(Bind::gpu, 1, machine(two_sockets, {-1})).front().find("does not know which NUMA node"),
            std::string::npos);
}

TEST(Binding, WithoutKnownNodesAllCpusAreOne) {
  Topology topology;
  topology.cpus = {{3, 3, 0, 0, -1}, {5, 5, 0, 0, -1}};
  EXPECT_EQ(lists(Bind::core, 2, topology), (Lists{"3", "5"}));
  EXPECT_EQ(lists(Bind::numa, 2, topology), (Lists{"3,5", "3,5"}));
  EXPECT_EQ(lists(Bind::core_complex, 1, topology), (Lists{"3,5"}));
}

}  // namespace
}  // namespace dlaunch::launcher
