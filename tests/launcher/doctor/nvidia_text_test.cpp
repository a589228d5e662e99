#include "launcher/doctor/nvidia_text.h"

#include <gtest/gtest.h>

#include "tests/launcher/doctor/nvidia_samples.h"

namespace dlaunch::launcher {
namespace {

TEST(NvidiaText, GpusAreTheLinesWithAllFields) {
  const std::string text =
      "0, NVIDIA H200, 00000000:00:06.0, 143771, 5, 5, 16, 16, Enabled, Default, Disabled, 0, "
      "0x0000000000000001, "
      "0x0000000000000001\n"
      "Unable to determine the device handle for GPU 00000000:01:00.0: GPU is lost.\n"
      "12, Tesla K80, 00000001:0A:00.0, [N/A], 1, 3, 8, 16, Disabled, Exclusive_Process, [N/A], [N/A], "
      "[N/A], "
      "0x0000000000000048\n"
      "x, NVIDIA H200, 00000000:00:06.0, 1, 5, 5, 16, 16, Enabled, Default, Disabled, 0, 0x1, 0x1\n";
  const std::vector<GpuDevice> gpus = gpus_from_csv(text, gpu_fields());
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0], (GpuDevice{0, "NVIDIA H200", "0000:00:06.0", 143771, 5, 5, 16, 16, true, "Default",
                                false, 0, 1}));
  EXPECT_EQ(gpus[1], (GpuDevice{12, "Tesla K80", "0001:0a:00.0", std::nullopt, 1, 3, 8, 16, false,
                                "Exclusive_Process", std::nullopt, std::nullopt, 0x48}));
}

TEST(NvidiaText, TheUnitOfANumberDoesNotMatter) {
  const auto gpus = gpus_from_csv("0, NVIDIA H200, 143771 MiB\n", {"index", "name", "memory.total"});
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].memory_mib, 143771);
}

TEST(NvidiaText, NamesAreSafeForATerminal) {
  const auto gpus = gpus_from_csv("0, \x1b[31mRed\x07 card\n", {"index", "name"});
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(gpus[0].name.find_first_of("\x1b\x07"), std::string::npos);
}

TEST(NvidiaText, TheFieldThatIsNotKnown) {
  EXPECT_EQ(rejected_field("Field \"clocks_event_reasons.active\" is not a valid field to query.\n"),
            "clocks_event_reasons.active");
  EXPECT_EQ(rejected_field("0, NVIDIA H200\n"), std::nullopt);
  EXPECT_EQ(rejected_field("Field \"a"), std::nullopt);
}

TEST(NvidiaText, Processes) {
  EXPECT_EQ(processes_from_csv("00000000:19:00.0, 4711\n00000000:19:00.0, [N/A]\nNo devices were found\n"),
            (std::vector<GpuProcess>{{"0000:19:00.0", 4711}}));
}

TEST(NvidiaText, OneGpuHasNoPaths) {
  EXPECT_EQ(topology_from(samples::one_gpu_topology), GpuTopology{});
  EXPECT_TRUE(peer_access_from(samples::one_gpu_peers).empty());
}

TEST(NvidiaText, PathsOfEightGpusAndTheirNetworkCards) {
  const GpuTopology topology = topology_from(samples::eight_gpu_topology);
  EXPECT_EQ(topology.paths.size(), 16U * 15U);
  EXPECT_EQ(topology.paths.at({"GPU0", "GPU7"}), GpuPath::nvlink);
  EXPECT_EQ(topology.paths.at({"GPU3", "NIC3"}), GpuPath::switches);
  EXPECT_EQ(topology.paths.at({"NIC0", "GPU1"}), GpuPath::node);
  EXPECT_EQ(topology.paths.at({"GPU1", "NIC4"}), GpuPath::sockets);
  EXPECT_EQ(topology.nics.size(), 8U);
  EXPECT_EQ(topology.nics.at("NIC7"), "mlx5_7");
}

TEST(NvidiaText, PathsWithoutNvlink) {
  const GpuTopology topology = topology_from(samples::pcie_topology);
  EXPECT_EQ(topology.paths.at({"GPU0", "GPU1"}), GpuPath::host_bridge);
  EXPECT_EQ(topology.paths.at({"GPU1", "NIC0"}), GpuPath::one_switch);
  EXPECT_EQ(topology.paths.at({"GPU2", "GPU3"}), GpuPath::node);
  EXPECT_EQ(topology.nics, (std::map<std::string, std::string>{{"NIC0", "mlx5_bond_0"}}));
}

TEST(NvidiaText, OldDriversNameTheNetworkCardsThemselves) {
  const GpuTopology topology = topology_from(
      "\tGPU0\tmlx5_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-23\t0\nmlx5_0\tPIX\t X \t\t\n");
  EXPECT_EQ(topology.paths.at({"GPU0", "mlx5_0"}), GpuPath::one_switch);
}

TEST(NvidiaText, OnlyOkIsPeerAccess) {
  const PeerAccess access = peer_access_from(samples::pcie_peers);
  EXPECT_EQ(access.size(), 12U);
  EXPECT_TRUE(access.at({"GPU0", "GPU1"}));
  EXPECT_FALSE(access.at({"GPU0", "GPU2"}));
  EXPECT_FALSE(access.at({"GPU2", "GPU1"}));
  EXPECT_TRUE(peer_access_from(" \tGPU0\tGPU1\n GPU0\tX\tU\n").empty()) << "unknown";
}

TEST(NvidiaText, TheDriver) {
  EXPECT_EQ(driver_version(samples::driver), "580.159.04");
  EXPECT_TRUE(is_open_driver(samples::driver));
  const std::string closed =
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021\n";
  EXPECT_EQ(driver_version(closed), "470.57.02");
  EXPECT_FALSE(is_open_driver(closed));
  EXPECT_EQ(driver_version(""), "");
}

TEST(NvidiaText, ModulesByTheirWholeName) {
  const std::string modules =
      "nvidia_uvm 1830912 - - Live 0xffffffffc080c000 (O)\nnvidia 14299136 - - Live 0xffffffffc0400000 (O)\n";
  EXPECT_TRUE(has_module(modules, "nvidia"));
  EXPECT_TRUE(has_module(modules, "nvidia_uvm"));
  EXPECT_FALSE(has_module(modules, "nvidia_peermem"));
  EXPECT_FALSE(has_module("nvidia_uvm 1830912\n", "nvidia"));
}

TEST(NvidiaText, AnExcludedGpu) {
  EXPECT_FALSE(is_excluded("Model: \t\t NVIDIA H200\nGPU Excluded:\t No\n"));
  EXPECT_TRUE(is_excluded("Model: \t\t NVIDIA H200\nGPU Excluded:\t Yes\n"));
}

TEST(NvidiaText, APortOfTheFabric) {
  EXPECT_EQ(fabric_port("mlx5_0", 1, "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)"),
            (FabricPort{"mlx5_0", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"}));
  EXPECT_EQ(fabric_port("mlx5_1", 2, "", "", ""), (FabricPort{"mlx5_1", 2, "", "", ""}));
}

TEST(NvidiaText, BusIdsHaveOneForm) {
  EXPECT_EQ(short_bus_id("00000000:1A:00.0"), "0000:1a:00.0");
  EXPECT_EQ(short_bus_id("00010000:1A:00.0"), "00010000:1a:00.0");
  EXPECT_EQ(short_bus_id("0000:1a:00.0"), "0000:1a:00.0");
  EXPECT_EQ(short_bus_id("[N/A]"), "[n/a]");
}

TEST(NvidiaText, TheLastLine) {
  EXPECT_EQ(last_line_of("NVIDIA-SMI has failed\n\nNo devices were found\n \n"), "No devices were found");
  EXPECT_EQ(last_line_of(""), "");
}

}  // namespace
}  // namespace dlaunch::launcher
