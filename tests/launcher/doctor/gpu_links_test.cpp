#include "launcher/doctor/gpu_links.h"

#include <gtest/gtest.h>

#include "tests/launcher/doctor/made_gpus.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

bool has(const Finding& finding, const std::string& part) {
  return (finding.text + ": " + finding.to_do).find(part) != std::string::npos;
}

TEST(GpuLinks, EightGpusWithNvlinkAndACardEach) {
  EXPECT_EQ(describe_links(healthy(8)), "NVLink between all");
  EXPECT_EQ(check_gpu_links(healthy(8)), Findings{});
}

TEST(GpuLinks, OneGpuHasNone) {
  EXPECT_EQ(describe_links(healthy(1)), "");
  EXPECT_EQ(check_gpu_links(healthy(1)), Findings{});
}

TEST(GpuLinks, PcieAcrossSockets) {
  const GpuFacts facts = healthy_without_nvlink();
  EXPECT_EQ(describe_links(facts), "");
  const Findings findings = check_gpu_links(facts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_TRUE(has(findings[0], "no NVLink between the GPUs"));
  EXPECT_TRUE(has(findings[0], "(SYS), the slowest way: GPU0-GPU2, GPU0-GPU3, GPU1-GPU2, GPU1-GPU3"));
  EXPECT_TRUE(has(findings[1], "no network device is on the socket of GPU2, GPU3"));
  for (const Finding& one : findings) EXPECT_EQ(one.grade, Grade::note);
}

TEST(GpuLinks, SomePairsHaveNvlink) {
  GpuFacts facts = healthy_without_nvlink();
  for (const DevicePair& pair : {DevicePair{"GPU0", "GPU1"}, DevicePair{"GPU2", "GPU3"}}) {
    facts.query.topology.paths[pair] = GpuPath::nvlink;
    facts.query.topology.paths[{pair.second, pair.first}] = GpuPath::nvlink;
  }
  const Findings findings = check_gpu_links(facts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_TRUE(has(findings[0], "pairs of GPUs without NVLink, connected by PCIe: GPU0-GPU2, GPU0-GPU3,"));
  EXPECT_EQ(describe_links(facts), "");
}

TEST(GpuLinks, PairsWithoutPeerAccessAreNamedOnce) {
  GpuFacts facts = healthy(8);
  facts.query.peer_access = peer_access_from(samples::pcie_peers);
  const Findings findings = check_gpu_links(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].grade, Grade::note);
  EXPECT_TRUE(
      has(findings[0], "(P2P): GPU0-GPU2, GPU0-GPU3, GPU1-GPU2; NCCL copies through the host's memory"));
  // In one direction only: it is a fault, too.
  facts.query.peer_access = {{{"GPU0", "GPU1"}, true}, {{"GPU1", "GPU0"}, false}};
  ASSERT_EQ(check_gpu_links(facts).size(), 1U);
  EXPECT_TRUE(has(check_gpu_links(facts)[0], "(P2P): GPU1-GPU0;"));
}

TEST(GpuLinks, NoFabricIsNoFinding) { EXPECT_EQ(check_fabric(healthy(8)), Findings{}); }

TEST(GpuLinks, GpuDirectNeedsAModuleOrDmaBuf) {
  GpuFacts facts = healthy(8);
  facts.ports = {{"mlx5_0", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"},
                 {"mlx5_1", 1, "InfiniBand", "ACTIVE", "400 Gb/sec"}};
  ASSERT_EQ(check_fabric(facts).size(), 1U);
  EXPECT_EQ(
      check_fabric(facts)[0].text,
      "2 active ports for RDMA (InfiniBand, 400 Gb/sec); GPUDirect RDMA by dma-buf (Linux 5.12 or newer)");
  facts.is_driver_open = false;
  EXPECT_EQ(check_fabric(facts)[0].grade, Grade::note);
  EXPECT_TRUE(has(check_fabric(facts)[0], "but no GPUDirect RDMA"));
  EXPECT_TRUE(has(check_fabric(facts)[0], "modprobe nvidia_peermem"));
  facts.has_peer_memory = true;
  facts.has_gdrcopy = true;
  EXPECT_EQ(check_fabric(facts)[0].grade, Grade::ok);
  EXPECT_TRUE(has(check_fabric(facts)[0], "by nvidia_peermem, and gdrcopy"));
}

TEST(GpuLinks, AMachineWithoutGpusNeedsNoGpuDirect) {
  GpuFacts facts;
  facts.ports = {{"rocep1s0", 1, "Ethernet", "ACTIVE", "100 Gb/sec"}};
  EXPECT_EQ(check_fabric(facts), (Findings{{Grade::ok, "1 active port for RDMA (RoCE, 100 Gb/sec)", ""}}));
}

TEST(GpuLinks, APortThatIsNotActiveIsNamed) {
  GpuFacts facts = healthy(8);
  facts.ports = {{"mlx5_0", 1, "InfiniBand", "INIT", "400 Gb/sec"}, {"mlx5_3", 2, "InfiniBand", "DOWN", ""}};
  ASSERT_EQ(check_fabric(facts).size(), 1U);
  EXPECT_EQ(check_fabric(facts)[0].grade, Grade::note);
  EXPECT_TRUE(has(check_fabric(facts)[0], "not active: mlx5_0 port 1 (INIT), mlx5_3 port 2 (DOWN)"));
}

}  // namespace
}  // namespace dlaunch::launcher
