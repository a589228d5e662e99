#include "launcher/topology/accelerators.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {
namespace {

enum class Vendor { nvidia_or_amd, amd, intel, habana, ascend };

struct Kind {
  std::string_view name;
  Vendor vendor;
};
constexpr std::array kinds{Kind{"gpu", Vendor::nvidia_or_amd}, Kind{"cuda", Vendor::nvidia_or_amd},
                           Kind{"hip", Vendor::amd},           Kind{"amd", Vendor::amd},
                           Kind{"rocm", Vendor::amd},          Kind{"xpu", Vendor::intel},
                           Kind{"hpu", Vendor::habana},        Kind{"npu", Vendor::ascend}};

constexpr std::string_view intel_id = "0x8086";
constexpr std::string_view habana_id = "0x1da3";

Vendor vendor_of(std::string_view name) {
  return std::find_if(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.name == name; })
      ->vendor;
}

// The names in a folder that are `prefix` and a number; none if the folder does not exist.
std::vector<std::string> numbered(const std::string& folder, std::string_view prefix) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder, failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const bool fits = name.starts_with(prefix) && name.size() > prefix.size() &&
                      std::all_of(name.begin() + static_cast<std::ptrdiff_t>(prefix.size()), name.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
    if (fits) names.push_back(name);
  }
  return names;
}

bool exists(const std::string& path) {
  std::error_code failed;
  return std::filesystem::exists(path, failed);
}

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The number of devices that a variable lists. As in the vendors' libraries, an empty list, or one that
// begins with -1, hides all.
int visible_of(int present, const EnvironmentMap& environment, const std::string& variable) {
  const auto found = environment.find(variable);
  if (found == environment.end()) return present;
  if (found->second.empty() || found->second.starts_with("-1")) return 0;
  return std::min(present, static_cast<int>(comma_list(found->second).size()));
}

// Device files exist even in a container without /proc/driver/nvidia.
int nvidia_devices(const EnvironmentMap& environment, const std::string& root) {
  const auto present = static_cast<int>(numbered(root + "/dev", "nvidia").size());
  return visible_of(present, environment, "CUDA_VISIBLE_DEVICES");
}

// The kernel's topology has one node for each GPU, and one for each CPU package, which has no SIMD units.
// Nodes that this process may not use are not readable.
int amd_devices(const EnvironmentMap& environment, const std::string& root) {
  const std::string nodes = root + "/sys/class/kfd/kfd/topology/nodes";
  int present = 0;
  for (const std::string& node : numbered(nodes, "")) {
    std::string path = nodes;
    path.append("/").append(node).append("/properties");
    std::ifstream properties(path);
    std::string name;
    unsigned long long value = 0;
    while (properties >> name >> value) {
      if (name == "simd_count" && value > 0) ++present;
    }
  }
  present = visible_of(present, environment, "ROCR_VISIBLE_DEVICES");
  const auto hip = environment.find("HIP_VISIBLE_DEVICES");
  const bool names_some = hip != environment.end() && !hip->second.empty();
  return visible_of(present, environment, names_some ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
}

// Each tile of a GPU is a device, unless ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE.
int intel_devices(const EnvironmentMap& environment, const std::string& root) {
  const auto hierarchy = environment.find("ZE_FLAT_DEVICE_HIERARCHY");
  const bool by_tile = hierarchy == environment.end() || hierarchy->second != "COMPOSITE";
  std::size_t present = 0;
  for (const std::string& name : numbered(root + "/sys/class/drm", "renderD")) {
    std::string device = root;
    device.append("/sys/class/drm/").append(name).append("/device");
    if (first_word(device + "/vendor") != intel_id ||
        !exists(std::string(root).append("/dev/dri/").append(name)))
      continue;
    present += by_tile ? std::max<std::size_t>(1, numbered(device, "tile").size()) : 1;
  }
  return visible_of(static_cast<int>(present), environment, "ZE_AFFINITY_MASK");
}

// Older drivers have /dev/hl0; newer ones use the kernel's directory for accelerators of all vendors.
int habana_devices(const EnvironmentMap& environment, const std::string& root) {
  auto present = static_cast<int>(numbered(root + "/dev", "hl").size());
  for (const std::string& name : numbered(root + "/dev/accel", "accel")) {
    std::string vendor = root;
    vendor.append("/sys/class/accel/").append(name).append("/device/vendor");
    if (first_word(vendor) == habana_id) ++present;
  }
  return visible_of(present, environment, "HABANA_VISIBLE_MODULES");
}

int ascend_devices(const EnvironmentMap& environment, const std::string& root) {
  const auto present = static_cast<int>(numbered(root + "/dev", "davinci").size());
  return visible_of(present, environment, "ASCEND_RT_VISIBLE_DEVICES");
}

}  // namespace

const std::vector<std::string>& accelerator_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    all.reserve(kinds.size());
    for (const Kind& kind : kinds) all.emplace_back(kind.name);
    return all;
  }();
  return names;
}

bool is_accelerator(std::string_view name) {
  return std::any_of(kinds.begin(), kinds.end(), [&](const Kind& kind) { return kind.name == name; });
}

int count_accelerators(std::string_view name, const EnvironmentMap& environment, const std::string& root) {
  switch (vendor_of(name)) {
    case Vendor::nvidia_or_amd: {
      const bool has_nvidia = !numbered(root + "/dev", "nvidia").empty();
      return has_nvidia ? nvidia_devices(environment, root) : amd_devices(environment, root);
    }
    case Vendor::amd:
      return amd_devices(environment, root);
    case Vendor::intel:
      return intel_devices(environment, root);
    case Vendor::habana:
      return habana_devices(environment, root);
    case Vendor::ascend:
      return ascend_devices(environment, root);
  }
  return 0;
}

std::string visibility_variables(std::string_view name) {
  switch (vendor_of(name)) {
    case Vendor::nvidia_or_amd:
      return "CUDA_VISIBLE_DEVICES";
    case Vendor::amd:
      return "HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES";
    case Vendor::intel:
      return "ZE_AFFINITY_MASK";
    case Vendor::habana:
      return "HABANA_VISIBLE_MODULES";
    case Vendor::ascend:
      return "ASCEND_RT_VISIBLE_DEVICES";
  }
  return "";
}

}  // namespace dlaunch::launcher
