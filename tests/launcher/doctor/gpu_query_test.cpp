// The double of nvidia-smi is a script that prints what a real one printed, and knows no new field.
#include "launcher/doctor/gpu_query.h"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/launcher/doctor/nvidia_samples.h"
#include "tests/launcher/topology/made_machine.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration query_patience = std::chrono::minutes(1);

// A machine with two GPUs, whose programs and libraries this process finds while the object lives.
class GpuMachine : public MadeMachine {
 public:
  GpuMachine() {
    add("/proc/driver/nvidia/version", samples::driver);
    add("/proc/modules",
        "nvidia_uvm 1 - - Live 0x0 (O)\nnvidia 2 - - Live 0x0 (O)\nnvidia_peermem 1 - - Live 0x0 (O)\n");
    for (const char* const address : {"0000:19:00.0", "0000:1a:00.0"}) {
      const std::string device = std::string("/sys/bus/pci/devices/") + address;
      add(device + "/vendor", "0x10de\n");
      add(device + "/class", "0x030200\n");
      add(std::string("/proc/driver/nvidia/gpus/") + address + "/information", "GPU Excluded:\t No\n");
    }
    add("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n");
    add("/sys/bus/pci/devices/0000:1b:00.0/class", "0x040300\n");  // its audio
    for (const char* const name : {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl"}) add(name);
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1/";
    add(port + "state", "4: ACTIVE\n");
    add(port + "link_layer", "InfiniBand\n");
    add(port + "rate", "400 Gb/sec (4X NDR)\n");
    path_.emplace("PATH", (root() + "/bin:/usr/bin:/bin").c_str());
  }
  void add_nvidia_smi(const std::string& script) {
    add_program("/bin/nvidia-smi", "#!/bin/sh\necho \"$*\" >> '" + root() + "/calls'\n" + script);
  }
  [[nodiscard]] std::vector<std::string> calls() const {
    std::ifstream file(root() + "/calls");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  [[nodiscard]] GpuFacts find(Duration time = query_patience) const { return find_gpu_facts(time, root()); }

 private:
  std::optional<test::Variable> path_;
  test::Variable ld_library_path_{"LD_LIBRARY_PATH", nullptr};
  test::Variable cuda_home_{"CUDA_HOME", nullptr};
  test::Variable cuda_path_{"CUDA_PATH", nullptr};
  test::Variable virtual_env_{"VIRTUAL_ENV", nullptr};
  test::Variable conda_{"CONDA_PREFIX", nullptr};
  test::Variable visible_{"CUDA_VISIBLE_DEVICES", nullptr};
};

constexpr const char* answers = R"(
case "$*" in
*clocks_event_reasons*) echo 'Field "clocks_event_reasons.active" is not a valid field to query.'; exit 2;;
*query-gpu*)
  echo "0, NVIDIA H200, 00000000:19:00.0, 143771, 5, 5, 16, 16, Enabled, Default, Disabled, 0, 0x0000000000000001"
  echo "1, NVIDIA H200, 00000000:1A:00.0, 143771, 5, 5, 8, 16, Enabled, Default, Disabled, 0, 0x0000000000000001";;
*query-compute-apps*) echo "00000000:1A:00.0, 4711";;
"topo -m") printf '\t\033[4mGPU0\tGPU1\tCPU Affinity\033[0m\nGPU0\t X \tNV18\t0-15\nGPU1\tNV18\t X \t0-15\n';;
"topo -p2p r") printf ' \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n';;
esac
)";

TEST(GpuQuery, FindsWhatTheKernelAndNvidiaSmiSay) {
  GpuMachine machine;
  machine.add_nvidia_smi(answers);
  const GpuFacts facts = machine.find();
  EXPECT_EQ(facts.on_bus, (std::vector<std::string>{"0000:19:00.0", "0000:1a:00.0"}));
  EXPECT_EQ(facts.of_driver, facts.on_bus);
  EXPECT_EQ(facts.driver, "580.159.04");
  EXPECT_TRUE(facts.is_driver_open && facts.is_module_loaded && facts.has_unified_memory &&
              facts.has_peer_memory);
  EXPECT_FALSE(facts.has_gdrcopy);
  EXPECT_EQ(facts.ports, (std::vector<FabricPort>{{"mlx5_0", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"}}));
  EXPECT_EQ(facts.usable, 2);
  ASSERT_EQ(facts.query.gpus.size(), 2U);
  EXPECT_EQ(facts.query.gpus[1],
            (GpuDevice{1, "NVIDIA H200", "0000:1a:00.0", 143771, 5, 5, 8, 16, true, "Default", false, 0, 1}));
  EXPECT_EQ(facts.query.processes, (std::vector<GpuProcess>{{"0000:1a:00.0", 4711}}));
  EXPECT_EQ(facts.query.topology.paths.at({"GPU0", "GPU1"}), GpuPath::nvlink);
  EXPECT_TRUE(facts.query.peer_access.at({"GPU1", "GPU0"}));
  EXPECT_FALSE(facts.query.timed_out);
}

TEST(GpuQuery, AfterACallWithoutAnAnswerThereIsNoOther) {
  GpuMachine machine;
  machine.add_nvidia_smi("exec sleep 1000");
  const GpuFacts facts = machine.find(std::chrono::milliseconds(50));
  EXPECT_TRUE(facts.query.timed_out);
  EXPECT_TRUE(facts.query.gpus.empty());
  EXPECT_LE(machine.calls().size(), 1U);
}

TEST(GpuQuery, ItsLastLineIsKeptIfItShowsNoGpu) {
  GpuMachine machine;
  machine.add_nvidia_smi("echo Failed to initialize NVML: Unknown Error; exit 255");
  const GpuFacts facts = machine.find();
  EXPECT_EQ(facts.query.last_line, "Failed to initialize NVML: Unknown Error");
  EXPECT_EQ(machine.calls().size(), 1U);
}

TEST(GpuQuery, AMachineWithoutAnyOfIt) {
  const MadeMachine machine;
  const test::Variable path("PATH", machine.root().c_str());
  const GpuFacts facts = find_gpu_facts(query_patience, machine.root());
  EXPECT_TRUE(facts.on_bus.empty() && facts.driver.empty() && facts.query.program.empty() &&
              facts.ports.empty());
  EXPECT_EQ(facts.usable, 0);
}

TEST(GpuQuery, NcclIsFoundAsTheLoaderFindsIt) {
  using namespace std::string_literals;     // NOLINT(google-build-using-namespace)
  const std::string begin(3U << 20U, 'x');  // the text is not in the first piece that is read
  GpuMachine machine;
  machine.add("/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
              begin + "NCCL version 2.32.3+cuda13.4\n\0"s);
  const test::Variable venv("VIRTUAL_ENV", (machine.root() + "/venv").c_str());
  EXPECT_EQ(machine.find().nccl.version, 23203);
  EXPECT_EQ(machine.find().nccl.cuda, "13.4");
  machine.add("/opt/nccl/libnccl.so.2", "no version");
  machine.add("/etc/ld.so.cache", "head\0/opt/nccl/libnccl.so.2\0"s);
  EXPECT_EQ(machine.find().nccl.path, machine.root() + "/opt/nccl/libnccl.so.2");
  EXPECT_EQ(machine.find().nccl.version, std::nullopt);
  machine.add("/own/libnccl.so.2", "NCCL version 2.18.1\0"s);
  const test::Variable own("LD_LIBRARY_PATH", ("/no/such/folder:" + machine.root() + "/own").c_str());
  EXPECT_EQ(machine.find().nccl.version, 21801);
}

// A text at the border of two pieces is found, too.
TEST(GpuQuery, TheVersionAtAnyPlaceOfTheFile) {
  using namespace std::string_literals;  // NOLINT(google-build-using-namespace)
  const std::string text = "NCCL version 2.30.1+cuda12.8\n\0"s;
  constexpr std::size_t piece = 1U << 20U;
  for (const std::size_t at : {piece - text.size(), piece - 10, piece, piece + 60}) {
    GpuMachine machine;
    machine.add("/own/libnccl.so.2", std::string(at, '\0') + text + std::string(200, '\0'));
    const test::Variable own("LD_LIBRARY_PATH", (machine.root() + "/own").c_str());
    EXPECT_EQ(machine.find().nccl.version, 23001) << at;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
