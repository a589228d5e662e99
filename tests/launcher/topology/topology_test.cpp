// /sys and /proc of machines of several kinds.

#include "launcher/topology/topology.h"

#include <gtest/gtest.h>

#include "tests/launcher/topology/made_machine.h"

namespace dlaunch::launcher {
namespace {

class Sys : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) { machine_.add(path, text + "\n"); }
  void put_cpu(int id, const std::string& siblings, int package, const std::string& l3) {
    const std::string cpu = "/sys/devices/system/cpu/cpu" + std::to_string(id);
    put(cpu + "/topology/thread_siblings_list", siblings);
    put(cpu + "/topology/physical_package_id", std::to_string(package));
    put(cpu + "/cache/index0/level", "1");
    put(cpu + "/cache/index0/shared_cpu_list", siblings);
    put(cpu + "/cache/index3/level", "3");
    put(cpu + "/cache/index3/shared_cpu_list", l3);
  }
  [[nodiscard]] Topology read(const Cpus& allowed) const { return read_topology(allowed, machine_.root()); }

 private:
  MadeMachine machine_;
};

TEST_F(Sys, TwoSocketsWithSmtAndAnOfflineCpu) {
  put("/sys/devices/system/cpu/online", "0-2,4-7");
  put("/sys/devices/system/node/node0/cpulist", "0-1,4-5");
  put("/sys/devices/system/node/node1/cpulist", "2-3,6-7");
  for (const int id : {0, 1, 2, 4, 5, 6, 7}) {
    const int core = id % 4;
    put_cpu(id, core == 3 ? "7" : std::to_string(core) + "," + std::to_string(core + 4), core / 2,
            core < 2 ? "0-1,4-5" : "2,6-7");
  }
  put("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
      "Model: \t H200\nGPU UUID: \t GPU-77\nBus Type: PCIe");
  put("/proc/driver/nvidia/gpus/0000:17:00.0/information", "Model: \t H200");
  put("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "1");

  const Topology topology = read({0, 1, 2, 3, 5, 6, 7});
  EXPECT_TRUE(topology.knows_nodes);
  EXPECT_EQ(topology.cpus, (std::vector<Cpu>{{0, 0, 0, 0, 0},
                                             {1, 1, 0, 0, 0},
                                             {2, 2, 1, 1, 2},
                                             {5, 1, 0, 0, 0},
                                             {6, 2, 1, 1, 2},
                                             {7, 7, 1, 1, 2}}));
  EXPECT_EQ(topology.gpus, (std::vector<Gpu>{{"0000:17:00.0", "", -1}, {"0000:3b:00.0", "GPU-77", 1}}));
}

TEST_F(Sys, WithoutSysfsEachCpuIsACoreOfOneNode) {
  const Topology topology = read({3, 5});
  EXPECT_FALSE(topology.knows_nodes);
  EXPECT_EQ(topology.cpus, (std::vector<Cpu>{{3, 3, 0, 0, -1}, {5, 5, 0, 0, -1}}));
  EXPECT_TRUE(topology.gpus.empty());
}

TEST_F(Sys, WithoutASharedCacheTheNodeIsTheNextUnit) {
  put("/sys/devices/system/cpu/online", "0-1");
  put("/sys/devices/system/node/node0/cpulist", "0");
  put("/sys/devices/system/node/node1/cpulist", "1");
  put("/sys/devices/system/cpu/cpu0/cache/index2/level", "2");
  put("/sys/devices/system/cpu/cpu0/cache/index2/shared_cpu_list", "0-1");
  EXPECT_EQ(read({0, 1}).cpus, (std::vector<Cpu>{{0, 0, 0, 0, -1}, {1, 1, 0, 1, -2}}))
      << "a cache below L3 does not count";
}

TEST_F(Sys, ADamagedFileIsAMissingOne) {
  put("/sys/devices/system/cpu/online", "no list");
  put("/sys/devices/system/cpu/cpu2/topology/physical_package_id", "-1");  // as some virtual machines have it
  put("/sys/devices/system/node/nodex/cpulist", "2");
  const Topology topology = read({2});
  EXPECT_EQ(topology.cpus, (std::vector<Cpu>{{2, 2, 0, 0, -1}}));
  EXPECT_FALSE(topology.knows_nodes);
}

}  // namespace
}  // namespace dlaunch::launcher
