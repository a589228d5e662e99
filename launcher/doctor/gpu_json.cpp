#include "launcher/doctor/gpu_json.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "launcher/doctor/nccl_text.h"

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::json;

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

// As nvidia-smi has it; of a bridge of NVLinks without their number.
const char* word_of(GpuPath path) {
  switch (path) {
    case GpuPath::nvlink:
      return "NV";
    case GpuPath::one_switch:
      return "PIX";
    case GpuPath::switches:
      return "PXB";
    case GpuPath::host_bridge:
      return "PHB";
    case GpuPath::node:
      return "NODE";
    case GpuPath::sockets:
      return "SYS";
    case GpuPath::none:
      break;
  }
  return "";
}

Json object_of(const GpuDevice& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"bus_id", gpu.bus_id},
          {"memory_mib", known(gpu.memory_mib)},
          {"pcie_generation", known(gpu.link_generation)},
          {"pcie_generation_most", known(gpu.most_generation)},
          {"pcie_width", known(gpu.link_width)},
          {"pcie_width_most", known(gpu.most_width)},
          {"persistence", known(gpu.is_persistent)},
          {"compute_mode", known(gpu.compute_mode)},
          {"mig", known(gpu.is_partitioned)},
          {"uncorrected_errors", known(gpu.uncorrected_errors)},
          {"clock_reasons", known(gpu.clock_reasons)}};
}

Json links_of(const GpuQuery& query) {
  Json links = Json::array();
  for (const auto& [pair, path] : query.topology.paths) {
    if (!pair.first.starts_with("GPU")) continue;
    const auto access = query.peer_access.find(pair);
    const auto nic = query.topology.nics.find(pair.second);
    Json link{{"from", pair.first}, {"path", word_of(path)}};
    link["to"] = nic == query.topology.nics.end() ? pair.second : nic->second;
    if (access != query.peer_access.end()) link["p2p"] = access->second;
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace

std::string gpu_json(const GpuFacts& facts) {
  Json gpus = Json::array();
  for (const GpuDevice& gpu : facts.query.gpus) gpus.push_back(object_of(gpu));
  Json processes = Json::array();
  for (const GpuProcess& one : facts.query.processes)
    processes.push_back({{"bus_id", one.bus_id}, {"pid", one.pid}});
  Json ports = Json::array();
  for (const FabricPort& one : facts.ports) {
    ports.push_back({{"device", one.device},
                     {"port", one.port},
                     {"layer", one.layer},
                     {"state", one.state},
                     {"rate", one.rate}});
  }
  Json nccl = nullptr;
  if (!facts.nccl.path.empty()) {
    nccl = {{"path", facts.nccl.path}, {"version", nullptr}, {"cuda", known(facts.nccl.cuda)}};
    if (facts.nccl.version) nccl["version"] = nccl_version_text(*facts.nccl.version);
  }
  const Json all{{"driver", known(facts.driver)},     {"on_pci_bus", facts.on_bus},
                 {"devices", std::move(gpus)},        {"links", links_of(facts.query)},
                 {"processes", std::move(processes)}, {"nccl", std::move(nccl)},
                 {"rdma_ports", std::move(ports)},    {"nvidia_peermem", facts.has_peer_memory},
                 {"gdrdrv", facts.has_gdrcopy},       {"open_driver", facts.is_driver_open}};
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace dlaunch::launcher
