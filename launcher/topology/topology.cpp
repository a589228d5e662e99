#include "launcher/topology/topology.h"

#include <dirent.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

namespace dlaunch::launcher {
namespace {

std::string in(std::string folder, const std::string& name) { return folder.append("/").append(name); }

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<int> read_int(const std::string& path) {
  const auto line = read_line(path);
  int value = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

Cpus read_cpus(const std::string& path) {
  const auto line = read_line(path);
  auto cpus = parse_cpu_list(line.value_or(""));
  return cpus ? std::move(*cpus) : Cpus{};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* dir = opendir(folder.c_str());
  if (!dir) return names;
  while (const dirent* entry = readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): one thread
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

std::map<int, int> nodes_of_cpus(const std::string& root) {
  std::map<int, int> out;
  const std::string folder = root + "/sys/devices/system/node";
  for (const std::string& name : names_in(folder)) {
    int node = 0;
    constexpr std::size_t prefix = 4;  // "node"
    if (!name.starts_with("node")) continue;
    if (std::from_chars(name.data() + prefix, name.data() + name.size(), node).ec != std::errc{}) continue;
    for (const int cpu : read_cpus(in(folder, name) + "/cpulist")) out[cpu] = node;
  }
  return out;
}

// The lowest CPU of the last-level cache, at least L3; none if there is none.
std::optional<int> last_level_cache(const std::string& cpu_folder) {
  std::optional<int> best;
  int best_level = 0;
  for (const std::string& name : names_in(cpu_folder + "/cache")) {
    if (!name.starts_with("index")) continue;
    const std::string folder = in(cpu_folder + "/cache", name);
    const int level = read_int(folder + "/level").value_or(0);
    const Cpus shared = read_cpus(folder + "/shared_cpu_list");
    if (level <= best_level || level < 3 || shared.empty()) continue;
    best = shared.front();
    best_level = level;
  }
  return best;
}

std::string uuid_of(const std::string& information_file) {
  std::ifstream file(information_file);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("GPU UUID:")) continue;
    const auto at = line.find("GPU-");
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

// The GPUs that the driver shows here; in a container, these may be fewer than the machine has.
std::vector<Gpu> read_gpus(const std::string& root) {
  std::vector<Gpu> out;
  const std::string driver = root + "/proc/driver/nvidia/gpus";
  for (const std::string& address : names_in(driver)) {
    const std::string device = in(root + "/sys/bus/pci/devices", address);
    out.push_back({address, uuid_of(in(driver, address) + "/information"),
                   read_int(device + "/numa_node").value_or(-1)});
  }
  return out;
}

}  // namespace

Topology read_topology(const Cpus& allowed, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/cpu";
  Cpus online = read_cpus(folder + "/online");
  if (online.empty()) online = allowed;
  Cpus usable;
  std::set_intersection(online.begin(), online.end(), allowed.begin(), allowed.end(),
                        std::back_inserter(usable));

  Topology topology;
  const std::map<int, int> nodes = nodes_of_cpus(root);
  topology.knows_nodes = !nodes.empty();
  for (const int id : usable) {
    const std::string cpu_folder = folder + "/cpu" + std::to_string(id);
    const Cpus siblings = read_cpus(cpu_folder + "/topology/thread_siblings_list");
    Cpu cpu;
    cpu.id = id;
    cpu.core = siblings.empty() ? id : siblings.front();
    cpu.package = std::max(0, read_int(cpu_folder + "/topology/physical_package_id").value_or(0));
    const auto node = nodes.find(id);
    cpu.node = node == nodes.end() ? 0 : node->second;
    // Without a shared L3 cache, use the NUMA node instead.
    cpu.l3 = last_level_cache(cpu_folder).value_or(-1 - cpu.node);
    topology.cpus.push_back(cpu);
  }
  topology.gpus = read_gpus(root);
  return topology;
}

}  // namespace dlaunch::launcher
