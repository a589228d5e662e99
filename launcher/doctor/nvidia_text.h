// Reads what NVIDIA's driver and nvidia-smi print. What they do not say stays empty; nothing is an error.
// Text of theirs that is kept is short and safe for a terminal. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/gpu_facts.h"

namespace dlaunch::launcher {

// For `nvidia-smi --query-gpu`.
const std::vector<std::string>& gpu_fields();

// A line for each GPU, with these fields, as --format=csv,noheader,nounits prints it. Other lines are left
// out.
std::vector<GpuDevice> gpus_from_csv(std::string_view text, const std::vector<std::string>& fields);

// The field that this nvidia-smi does not know: it then answers nothing else. none: it knows all.
std::optional<std::string> rejected_field(std::string_view text);

// Of --query-compute-apps=gpu_bus_id,pid.
std::vector<GpuProcess> processes_from_csv(std::string_view text);

GpuTopology topology_from(std::string_view text);    // of `nvidia-smi topo -m`
PeerAccess peer_access_from(std::string_view text);  // of `nvidia-smi topo -p2p r`
std::string last_line_of(std::string_view text);     // the last one that is not empty

// Of /proc/driver/nvidia/version: "580.159.04"; empty: none. Whether it is the module with open source.
std::string driver_version(std::string_view text);
bool is_open_driver(std::string_view text);

// Of /proc/modules.
bool has_module(std::string_view modules, std::string_view name);

// Of /proc/driver/nvidia/gpus/*/information: the administrator has taken it out of use.
bool is_excluded(std::string_view information);

// By the files of /sys/class/infiniband/DEVICE/ports/N: "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)".
FabricPort fabric_port(std::string_view device, int port, std::string_view state, std::string_view layer,
                       std::string_view rate);

// "0000:19:00.0", however many digits the domain has.
std::string short_bus_id(std::string_view id);

}  // namespace dlaunch::launcher
