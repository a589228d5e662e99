// What is known of this machine's NVIDIA GPUs, and of what NCCL uses to connect them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::launcher {

// One GPU, as nvidia-smi reports it. none: nvidia-smi does not say ("[N/A]").
struct GpuDevice {
  int index = 0;
  std::string name;
  std::string bus_id;  // "00000000:19:00.0"
  std::optional<std::int64_t> memory_mib;
  std::optional<int> link_generation;  // of PCIe; an idle GPU lowers it
  std::optional<int> most_generation;
  std::optional<int> link_width;  // lanes of PCIe
  std::optional<int> most_width;
  std::optional<bool> is_persistent;               // persistence mode
  std::string compute_mode;                        // "Default", "Exclusive_Process", "Prohibited"
  std::optional<bool> is_partitioned;              // MIG mode
  std::optional<std::int64_t> uncorrected_errors;  // of its memory, since the driver was loaded
  std::optional<std::uint64_t> clock_reasons;      // bits: why the clocks are not at their highest

  bool operator==(const GpuDevice&) const = default;
};

// A process that computes on a GPU.
struct GpuProcess {
  std::string bus_id;
  std::int64_t pid = 0;

  bool operator==(const GpuProcess&) const = default;
};

// How two devices are connected, the nearest first. none: not known.
enum class GpuPath : std::uint8_t { none, nvlink, one_switch, switches, host_bridge, node, sockets };

using DevicePair = std::pair<std::string, std::string>;  // "GPU0", "NIC2"

// The two matrices of `nvidia-smi topo`.
struct GpuTopology {
  std::map<DevicePair, GpuPath> paths;      // both directions; without pairs that are not known
  std::map<std::string, std::string> nics;  // "NIC0" -> "mlx5_0"

  bool operator==(const GpuTopology&) const = default;
};
// Whether the first can read the second's memory itself.
using PeerAccess = std::map<DevicePair, bool>;

// A port of an InfiniBand or RoCE device.
struct FabricPort {
  std::string device;  // "mlx5_0"
  int port = 1;
  std::string layer;  // "InfiniBand" or "Ethernet" (RoCE)
  std::string state;  // "ACTIVE", "DOWN", "INIT"
  std::string rate;   // "400 Gb/sec"

  bool operator==(const FabricPort&) const = default;
};

// What nvidia-smi answered.
struct GpuQuery {
  std::string program;     // its path; empty: not installed
  bool timed_out = false;  // it did not answer
  std::string last_line;   // what it printed instead of GPUs
  std::vector<GpuDevice> gpus;
  std::vector<GpuProcess> processes;
  GpuTopology topology;
  PeerAccess peer_access;
};

struct NcclFacts {
  std::string path;            // empty: not found
  std::optional<int> version;  // 23203: as NCCL_VERSION_CODE. none: its file does not have it
  std::string cuda;            // "13.4"; empty: not known
};

struct GpuFacts {
  std::vector<std::string> on_bus;     // addresses of NVIDIA GPUs on the PCI bus
  bool is_module_loaded = false;       // nvidia, in the kernel
  std::string driver;                  // "580.159.04"; empty: this process sees no driver
  bool is_driver_open = false;         // the kernel module with open source, which can give dma-buf
  std::vector<std::string> of_driver;  // addresses of the GPUs that the driver has
  bool has_peer_memory = false;        // the module nvidia_peermem
  bool has_gdrcopy = false;            // the module gdrdrv
  bool has_unified_memory = false;     // the module nvidia_uvm
  GpuQuery query;
  NcclFacts nccl;
  std::vector<FabricPort> ports;
  int usable =
      0;  // by the device files and CUDA_VISIBLE_DEVICES, as --nproc-per-node=gpu counts them; AMD's, too
};

}  // namespace dlaunch::launcher
