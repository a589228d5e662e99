#include "launcher/doctor/gpu_links.h"

#include <algorithm>
#include <set>

#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

bool is_gpu(const std::string& device) { return device.starts_with("GPU"); }

// One of the two directions; the other says the same.
bool is_pair_of_gpus(const DevicePair& pair) {
  return is_gpu(pair.first) && is_gpu(pair.second) && pair.first < pair.second;
}

std::string text_of(const DevicePair& pair) { return pair.first + "-" + pair.second; }

struct Pairs {
  ShortList all;
  ShortList without_nvlink;
  ShortList across_sockets;
};

Pairs pairs_of(const GpuTopology& topology) {
  Pairs pairs;
  for (const auto& [pair, path] : topology.paths) {
    if (!is_pair_of_gpus(pair)) continue;
    pairs.all.add(text_of(pair));
    if (path != GpuPath::nvlink) pairs.without_nvlink.add(text_of(pair));
    if (path == GpuPath::sockets) pairs.across_sockets.add(text_of(pair));
  }
  return pairs;
}

void check_peer_access(Findings& out, const PeerAccess& access) {
  ShortList without;
  for (const auto& [pair, has_access] : access) {
    const auto back = access.find({pair.second, pair.first});
    const bool is_second = back != access.end() && !back->second && pair.second < pair.first;
    if (!has_access && !is_second) without.add(text_of(pair));
  }
  if (without.count() == 0) return;
  out.push_back({Grade::note,
                 "GPUs cannot reach each other's memory (P2P): " + without.text() +
                     "; NCCL copies through the host's memory, which is several times slower",
                 "turn PCIe ACS and the IOMMU off in the firmware, or pass the GPUs' switches to the virtual "
                 "machine, too; NCCL_DEBUG=INFO shows the way it takes (P2P or SHM)"});
}

void check_nvlink(Findings& out, const Pairs& pairs) {
  if (pairs.without_nvlink.count() == 0) return;
  const std::string sockets =
      pairs.across_sockets.count() == 0
          ? ""
          : "; these cross the sockets (SYS), the slowest way: " + pairs.across_sockets.text();
  if (pairs.without_nvlink.count() < pairs.all.count()) {
    out.push_back(
        {Grade::note,
         "pairs of GPUs without NVLink, connected by PCIe: " + pairs.without_nvlink.text() + sockets,
         "give jobs of a few ranks GPUs that have NVLink between them (CUDA_VISIBLE_DEVICES; "
         "nvidia-smi topo -m)"});
    return;
  }
  out.push_back({Grade::note, "no NVLink between the GPUs: collectives are as slow as PCIe" + sockets,
                 "if the machine has NVSwitch, start nvidia-fabricmanager; otherwise prefer few, large "
                 "messages, and jobs within one socket (--bind=gpu)"});
}

void check_nearest_nic(Findings& out, const GpuFacts& facts) {
  std::map<std::string, GpuPath> nearest;
  for (const auto& [pair, path] : facts.query.topology.paths) {
    if (!is_gpu(pair.first) || is_gpu(pair.second)) continue;
    const auto [at, is_new] = nearest.try_emplace(pair.first, path);
    if (!is_new) at->second = std::min(at->second, path);
  }
  ShortList far;
  for (const auto& [gpu, path] : nearest) {
    if (path == GpuPath::sockets) far.add(gpu);
  }
  if (far.count() == 0) return;
  out.push_back({Grade::note,
                 "no network device is on the socket of " + far.text() +
                     ": traffic to other hosts crosses the sockets (SYS)",
                 "put a network card into a slot of that socket, or use the other GPUs first"});
}

std::string describe_ports(const std::vector<FabricPort>& ports) {
  std::set<std::string> kinds;
  for (const FabricPort& one : ports)
    kinds.insert((one.layer == "Ethernet" ? "RoCE" : one.layer) + (one.rate.empty() ? "" : ", " + one.rate));
  return pluralize(ports.size(), "active port") + " for RDMA (" + join(kinds, "; ") + ")";
}

Finding gpu_direct(const GpuFacts& facts, const std::string& ports) {
  const std::string gdrcopy = facts.has_gdrcopy ? ", and gdrcopy" : "";
  if (facts.has_peer_memory) return {Grade::ok, ports + "; GPUDirect RDMA by nvidia_peermem" + gdrcopy, ""};
  if (facts.is_driver_open)
    return {Grade::ok, ports + "; GPUDirect RDMA by dma-buf (Linux 5.12 or newer)" + gdrcopy, ""};
  return {Grade::note,
          ports + ", but no GPUDirect RDMA: what GPUs send to other hosts goes through the host's memory",
          "modprobe nvidia_peermem, or install the open kernel modules of the driver (dma-buf)"};
}

}  // namespace

std::string describe_links(const GpuFacts& facts) {
  const Pairs pairs = pairs_of(facts.query.topology);
  if (pairs.all.count() == 0 || pairs.without_nvlink.count() != 0) return "";
  return "NVLink between all";
}

Findings check_gpu_links(const GpuFacts& facts) {
  Findings findings;
  check_peer_access(findings, facts.query.peer_access);
  check_nvlink(findings, pairs_of(facts.query.topology));
  check_nearest_nic(findings, facts);
  return findings;
}

Findings check_fabric(const GpuFacts& facts) {
  Findings findings;
  std::vector<FabricPort> active;
  ShortList others;
  for (const FabricPort& one : facts.ports) {
    if (one.state == "ACTIVE") {
      active.push_back(one);
    } else {
      others.add(one.device + " port " + std::to_string(one.port) + " (" + one.state + ")");
    }
  }
  if (!active.empty()) {
    const std::string ports = describe_ports(active);
    findings.push_back(facts.query.gpus.empty() ? Finding{Grade::ok, ports, ""} : gpu_direct(facts, ports));
  }
  if (others.count() != 0) {
    findings.push_back(
        {Grade::note, "ports for RDMA that are not active: " + others.text(),
         "if a job is to use them, check the cable, the switch and, for InfiniBand, the subnet "
         "manager (ibstat)"});
  }
  return findings;
}

}  // namespace dlaunch::launcher
