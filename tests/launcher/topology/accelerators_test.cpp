#include "launcher/topology/accelerators.h"

#include <gtest/gtest.h>

#include "tests/launcher/topology/made_machine.h"

namespace dlaunch::launcher {
namespace {

class Machine : public MadeMachine {
 public:
  [[nodiscard]] int count(const std::string& name, const EnvironmentMap& environment = {}) const {
    return count_accelerators(name, environment, root());
  }
};

TEST(Accelerators, NvidiasAreCounted) {
  Machine machine;
  EXPECT_EQ(machine.count("gpu"), 0);
  for (const char* name : {"nvidia0", "nvidia1", "nvidia11", "nvidiactl", "nvidia-uvm"})
    machine.add(std::string("/dev/") + name);
  EXPECT_EQ(machine.count("gpu"), 3);
  EXPECT_EQ(machine.count("cuda"), 3);
  EXPECT_EQ(machine.count("gpu", {{"CUDA_VISIBLE_DEVICES", "0,1"}}), 2);
  EXPECT_EQ(machine.count("gpu", {{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}}), 3);
  EXPECT_EQ(machine.count("gpu", {{"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(machine.count("gpu", {{"CUDA_VISIBLE_DEVICES", "-1"}}), 0);
}

TEST(Accelerators, AmdsAreThoseOfTheKernelsTopologyThatHaveSimdUnits) {
  Machine machine;
  const std::string nodes = "/sys/class/kfd/kfd/topology/nodes/";
  machine.add(nodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  machine.add(nodes + "1/properties", "cpu_cores_count 0\nsimd_count 440\nmem_banks_count 1\n");
  machine.add(nodes + "2/properties", "simd_count 440\n");
  machine.add(nodes + "3/properties");
  for (const char* name : {"hip", "amd", "rocm", "gpu"}) EXPECT_EQ(machine.count(name), 2) << name;
  EXPECT_EQ(machine.count("hip", {{"HIP_VISIBLE_DEVICES", "1"}, {"CUDA_VISIBLE_DEVICES", "0,1"}}), 1);
  EXPECT_EQ(machine.count("hip", {{"ROCR_VISIBLE_DEVICES", "0"}}), 1);
  EXPECT_EQ(machine.count("gpu", {{"CUDA_VISIBLE_DEVICES", "1"}}), 1);
}

TEST(Accelerators, IntelsTilesAreCounted) {
  Machine machine;
  const auto add = [&](const std::string& name, const std::string& vendor) {
    machine.add("/dev/dri/" + name);
    machine.add("/sys/class/drm/" + name + "/device/vendor", vendor + "\n");
  };
  add("renderD128", "0x8086");
  add("renderD129", "0x1002");
  add("renderD130", "0x8086");
  machine.add("/sys/class/drm/renderD130/device/tile0/x");
  machine.add("/sys/class/drm/renderD130/device/tile1/x");
  machine.add("/sys/class/drm/renderD131/device/vendor",
              "0x8086\n");  // its device file is not in this container
  EXPECT_EQ(machine.count("xpu"), 3);
  EXPECT_EQ(machine.count("xpu", {{"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}}), 2);
  EXPECT_EQ(machine.count("xpu", {{"ZE_AFFINITY_MASK", "0"}}), 1);
}

TEST(Accelerators, OthersAreCountedByTheirDeviceFiles) {
  Machine machine;
  machine.add("/dev/accel/accel0");
  machine.add("/dev/accel/accel_controlD0");
  machine.add("/sys/class/accel/accel0/device/vendor", "0x1da3\n");
  machine.add("/dev/accel/accel1");
  machine.add("/sys/class/accel/accel1/device/vendor", "0x8086\n");
  EXPECT_EQ(machine.count("hpu"), 1);
  machine.add("/dev/hl0");
  machine.add("/dev/hl_controlD0");
  EXPECT_EQ(machine.count("hpu"), 2);
  machine.add("/dev/davinci0");
  machine.add("/dev/davinci_manager");
  EXPECT_EQ(machine.count("npu"), 1);
}

}  // namespace
}  // namespace dlaunch::launcher
