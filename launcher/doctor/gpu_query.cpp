#include "launcher/doctor/gpu_query.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "launcher/doctor/nccl_text.h"
#include "launcher/doctor/nvidia_text.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/program_output.h"
#include "launcher/topology/accelerators.h"
#include "store/base/library_places.h"
#include "store/base/number.h"
#include "store/base/text.h"
#include "store/base/wheel_folders.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

// --- files ---

// The beginning of a file; of one that is not there "".
std::string text_of(const std::string& path) {
  constexpr std::streamsize most = 1 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), most);
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string first_line_of(const std::string& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

// The names in a folder, sorted; none if it does not exist.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed))
    names.push_back(at->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> gpus_on_bus(const std::string& root) {
  const std::string devices = root + "/sys/bus/pci/devices/";
  std::vector<std::string> addresses;
  for (const std::string& address : names_in(devices)) {
    const std::string device = devices + address;
    if (first_line_of(device + "/vendor") != "0x10de") continue;
    const std::string kind = first_line_of(device + "/class");
    const bool is_gpu = kind.starts_with("0x0300") || kind.starts_with("0x0302");  // with a display, without
    if (is_gpu) addresses.push_back(short_bus_id(address));
  }
  return addresses;
}

void find_driver(GpuFacts& facts, const std::string& root) {
  const std::string version = text_of(root + "/proc/driver/nvidia/version");
  facts.driver = driver_version(version);
  facts.is_driver_open = is_open_driver(version);
  const std::string modules = text_of(root + "/proc/modules");
  facts.is_module_loaded = has_module(modules, "nvidia");
  facts.has_unified_memory = has_module(modules, "nvidia_uvm");
  facts.has_peer_memory = has_module(modules, "nvidia_peermem") || has_module(modules, "nv_peer_mem");
  facts.has_gdrcopy = has_module(modules, "gdrdrv");
  const std::string gpus = root + "/proc/driver/nvidia/gpus/";
  for (const std::string& address : names_in(gpus)) {
    if (!is_excluded(text_of(gpus + address + "/information")))
      facts.of_driver.push_back(short_bus_id(address));
  }
}

std::vector<FabricPort> fabric_ports(const std::string& root) {
  const std::string devices = root + "/sys/class/infiniband/";
  std::vector<FabricPort> ports;
  for (const std::string& device : names_in(devices)) {
    const std::string of_device = std::string(devices).append(device).append("/ports/");
    for (const std::string& name : names_in(of_device)) {
      const auto number = parse_number<int>(name);
      const std::string folder = std::string(of_device).append(name);
      if (number) {
        ports.push_back(fabric_port(device, *number, first_line_of(folder + "/state"),
                                    first_line_of(folder + "/link_layer"), first_line_of(folder + "/rate")));
      }
    }
  }
  return ports;
}

// --- nvidia-smi ---

class NvidiaSmi {
 public:
  NvidiaSmi(std::string program, Duration patience) : program_(std::move(program)), patience_(patience) {}

  // Its output; nothing after a call that did not answer in time.
  std::string ask(std::vector<std::string> words) {
    constexpr std::size_t most = 1 << 20;
    if (timed_out_) return "";
    words.insert(words.begin(), program_);
    const TimePoint deadline = steady_now() + patience_;
    auto printed = output_of(words, deadline, most);
    timed_out_ = steady_now() >= deadline;
    if (timed_out_) return "";
    return printed ? std::move(*printed) : printed.error().message();
  }
  [[nodiscard]] bool timed_out() const { return timed_out_; }

 private:
  std::string program_;
  Duration patience_;
  bool timed_out_ = false;
};

// An old nvidia-smi rejects the names of new fields, one at a time, and a new one those of old fields.
std::vector<GpuDevice> query_gpus(NvidiaSmi& nvidia_smi, std::string& text) {
  constexpr int most_rejected = 3;
  std::vector<std::string> fields = gpu_fields();
  for (int rejected = 0;; ++rejected) {
    text = nvidia_smi.ask({"--query-gpu=" + join(fields, ","), "--format=csv,noheader,nounits"});
    const auto field = rejected_field(text);
    if (!field || rejected == most_rejected || std::erase(fields, *field) == 0) break;
  }
  return gpus_from_csv(text, fields);
}

GpuQuery ask_nvidia_smi(Duration patience) {
  GpuQuery query;
  query.program = find_on_path("nvidia-smi");
  if (query.program.empty()) return query;
  NvidiaSmi nvidia_smi(query.program, patience);
  std::string text;
  query.gpus = query_gpus(nvidia_smi, text);
  query.timed_out = nvidia_smi.timed_out();
  if (query.gpus.empty()) {
    query.last_line = last_line_of(text);
    return query;
  }
  query.processes = processes_from_csv(
      nvidia_smi.ask({"--query-compute-apps=gpu_bus_id,pid", "--format=csv,noheader,nounits"}));
  query.topology = topology_from(nvidia_smi.ask({"topo", "-m"}));
  if (query.gpus.size() > 1) query.peer_access = peer_access_from(nvidia_smi.ask({"topo", "-p2p", "r"}));
  query.timed_out = nvidia_smi.timed_out();
  return query;
}

// --- NCCL ---

constexpr std::string_view nccl_file = "libnccl.so.2";

std::optional<std::string> variable(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// In the order in which libdlaunch finds it: the loader's places, then its own.
std::vector<std::string> nccl_places(const std::string& root) {
  std::vector<std::string> places;
  const auto in_folder = [&](const std::string& folder) {
    if (!folder.empty()) places.push_back(folder + "/" + std::string(nccl_file));
  };
  const std::string path = variable("LD_LIBRARY_PATH").value_or("");
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find_first_of(":;", at), path.size());
    in_folder(path.substr(at, end - at));
    at = end + 1;
  }
  for (const std::string& one : cached_libraries(text_of(root + "/etc/ld.so.cache"), nccl_file))
    places.push_back(root + one);
  for (const char* const folder : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"}) in_folder(root + folder);
  for (const std::string& place :
       library_places({std::string(nccl_file)}, {"nccl/lib"}, nvidia_wheel_folders(variable), variable)) {
    if (place.find('/') != std::string::npos) places.push_back(place);
  }
  return places;
}

// Looks only at the beginning: the text comes before the code for GPUs, hundreds of megabytes.
std::optional<NcclVersion> version_of_file(const std::string& path) {
  constexpr std::size_t piece = 1 << 20;
  constexpr std::size_t overlap = 128;
  constexpr std::size_t most = 64 << 20;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  for (std::size_t read = 0; read < most; read += piece) {
    bytes.erase(0, bytes.size() - std::min(bytes.size(), overlap));
    const std::size_t kept = bytes.size();
    bytes.resize(kept + piece);
    file.read(bytes.data() + kept, piece);
    bytes.resize(kept + static_cast<std::size_t>(file.gcount()));
    if (auto version = nccl_version_in(bytes)) return version;
    if (!file) break;
  }
  return std::nullopt;
}

NcclFacts find_nccl(const std::string& root) {
  for (const std::string& place : nccl_places(root)) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(place, failed)) continue;
    NcclFacts facts{place, std::nullopt, ""};
    if (const auto version = version_of_file(place)) {
      facts.version = version->code;
      facts.cuda = version->cuda;
    }
    return facts;
  }
  return {};
}

}  // namespace

GpuFacts find_gpu_facts(Duration patience, const std::string& root) {
  GpuFacts facts;
  facts.on_bus = gpus_on_bus(root);
  find_driver(facts, root);
  facts.ports = fabric_ports(root);
  facts.usable = count_accelerators("gpu", environment(), root);
  facts.query = ask_nvidia_smi(patience);
  facts.nccl = find_nccl(root);
  return facts;
}

}  // namespace dlaunch::launcher
