#include "launcher/doctor/gpu_verdict.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/doctor/gpu_links.h"
#include "launcher/doctor/nccl_text.h"
#include "store/base/number.h"
#include "store/base/text.h"

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

constexpr int oldest_nccl = 21'900;   // that libdlaunch's backend accepts
constexpr int sharing_nccl = 23'000;  // the first that allows several ranks on one GPU
constexpr int first_cuda13_driver = 580;

// "GPU 1, 3", "all 8 GPUs", "the GPU".
std::string named(const std::vector<GpuDevice>& some, const std::vector<GpuDevice>& all) {
  if (some.size() == all.size()) return all.size() == 1 ? "the GPU" : "all " + pluralize(all.size(), "GPU");
  ShortList list;
  for (const GpuDevice& gpu : some) list.add(std::to_string(gpu.index));
  return "GPU " + list.text();
}

std::vector<GpuDevice> those(const std::vector<GpuDevice>& all,
                             const std::function<bool(const GpuDevice&)>& fits) {
  std::vector<GpuDevice> some;
  std::ranges::copy_if(all, std::back_inserter(some), fits);
  return some;
}

// --- without GPUs ---

Finding no_driver(const GpuFacts& facts) {
  const bool has_nvidia = facts.is_module_loaded || !facts.on_bus.empty();
  if (facts.usable > 0)
    return {Grade::ok, pluralize(facts.usable, has_nvidia ? "NVIDIA GPU" : "AMD GPU") + " (by device files)",
            ""};
  if (facts.is_module_loaded) {
    return {Grade::note, "the kernel has an NVIDIA driver, but this container sees no GPU",
            "start the container with its GPUs (docker run --gpus=all; in Kubernetes the resource "
            "nvidia.com/gpu)"};
  }
  if (!facts.on_bus.empty()) {
    ShortList addresses;
    for (const std::string& one : facts.on_bus) addresses.add(one);
    return {Grade::note,
            pluralize(facts.on_bus.size(), "NVIDIA GPU") + " on the PCI bus (" + addresses.text() +
                "), but the kernel has no NVIDIA driver",
            "install the driver, or load it: modprobe nvidia"};
  }
  return {Grade::ok, "no NVIDIA driver: --nproc-per-node=auto counts processors", ""};
}

Finding no_answer(const GpuFacts& facts) {
  const std::string driver = "the NVIDIA driver " + facts.driver;
  if (facts.query.program.empty()) {
    if (facts.usable == 0) {
      return {
          Grade::note, "there is an NVIDIA driver (" + facts.driver + "), but no usable GPU",
          "check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*; in a container, start it with its "
          "GPUs (docker run --gpus=all)"};
    }
    return {Grade::note,
            pluralize(facts.usable, "GPU") + ", driver " + facts.driver +
                ", but no nvidia-smi: links, errors and modes are not checked",
            "install nvidia-smi of the driver's version (in a container: "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility)"};
  }
  if (facts.query.timed_out) {
    return {Grade::bad, facts.query.program + " does not answer (" + driver + "): a GPU may be lost",
            "look for Xid in the kernel's log (dmesg); reset the GPU, or restart the machine"};
  }
  const std::string& said = facts.query.last_line;
  const std::string text =
      facts.query.program + " shows no GPU" + (said.empty() ? "" : " (\"" + said + "\")") + "; " + driver;
  if (said.find("version mismatch") != std::string::npos) {
    return {Grade::bad, text, "the driver was updated while it was loaded: restart the machine"};
  }
  if (facts.of_driver.empty() && facts.on_bus.empty())
    return {Grade::note, text, "there is no GPU on the PCI bus"};
  return {Grade::bad, text, "look for NVRM and Xid in the kernel's log (dmesg); restart the machine"};
}

// --- the GPUs ---

std::string memory_text(const GpuDevice& gpu) {
  constexpr std::int64_t mib_of_gib = 1024;
  return gpu.memory_mib ? " with " + std::to_string(*gpu.memory_mib / mib_of_gib) + " GiB" : "";
}

Finding headline(const GpuFacts& facts) {
  const std::vector<GpuDevice>& gpus = facts.query.gpus;
  std::map<std::string, std::size_t> kinds;
  for (const GpuDevice& gpu : gpus) ++kinds[gpu.name + memory_text(gpu)];
  std::vector<std::string> words;
  words.reserve(kinds.size());
  for (const auto& [kind, count] : kinds)
    words.push_back(kinds.size() == 1 ? kind : std::to_string(count) + " " + kind);
  std::string text = pluralize(gpus.size(), "GPU") + ": " + join(words, ", ");
  if (!facts.driver.empty()) text += "; driver " + facts.driver;
  if (const std::string links = describe_links(facts); !links.empty()) text += "; " + links;
  if (facts.usable == 0) {
    return {Grade::note, text + "; this user's jobs can use none",
            "check CUDA_VISIBLE_DEVICES and the permissions of /dev/nvidia*"};
  }
  if (static_cast<std::size_t>(facts.usable) < gpus.size())
    text += "; jobs use " + std::to_string(facts.usable) + " (CUDA_VISIBLE_DEVICES, /dev/nvidia*)";
  return {Grade::ok, text, ""};
}

void check_lost(Findings& out, const GpuFacts& facts) {
  std::set<std::string> answered;
  for (const GpuDevice& gpu : facts.query.gpus) answered.insert(gpu.bus_id);
  ShortList lost;
  for (const std::string& one : facts.of_driver) {
    if (!answered.contains(one)) lost.add(one);
  }
  if (lost.count() == 0) return;
  out.push_back(
      {Grade::note, "the driver has GPUs that nvidia-smi does not show: " + lost.text(),
       "a container may have been given only some; otherwise look for Xid in the kernel's log (dmesg)"});
}

void check_errors(Findings& out, const std::vector<GpuDevice>& gpus) {
  const auto with_errors =
      those(gpus, [](const GpuDevice& gpu) { return gpu.uncorrected_errors.value_or(0) > 0; });
  if (with_errors.empty()) return;
  out.push_back(
      {Grade::bad, "uncorrected memory errors (ECC) since the driver was loaded: " + named(with_errors, gpus),
       "end what uses it and reset it (nvidia-smi --gpu-reset -i N); if errors return, replace it"});
}

void check_clocks(Findings& out, const std::vector<GpuDevice>& gpus) {
  // Of the hardware (thermal, power brake, or either), and thermal by software; not the limit of power, which
  // every busy GPU meets.
  constexpr std::uint64_t slow = 0x8 | 0x20 | 0x40 | 0x80;
  const auto slowed =
      those(gpus, [](const GpuDevice& gpu) { return (gpu.clock_reasons.value_or(0) & slow) != 0; });
  if (slowed.empty()) return;
  out.push_back({Grade::note,
                 "heat or the power supply slows " + named(slowed, gpus) + " down; all ranks wait for it",
                 "see nvidia-smi -q -d PERFORMANCE; check cooling and power"});
}

bool has_slow_link(const GpuDevice& gpu) {
  const bool is_narrow = gpu.link_width && gpu.most_width && *gpu.link_width < *gpu.most_width;
  // An idle GPU lowers the generation, and raises it when it works.
  const bool is_busy = gpu.clock_reasons && (*gpu.clock_reasons & 1U) == 0;
  return is_narrow || (is_busy && gpu.link_generation && gpu.most_generation &&
                       *gpu.link_generation < *gpu.most_generation);
}

std::string pcie(const std::optional<int>& generation, const std::optional<int>& width) {
  return "gen " + (generation ? std::to_string(*generation) : "?") + " x" +
         (width ? std::to_string(*width) : "?");
}

void check_pcie(Findings& out, const std::vector<GpuDevice>& gpus) {
  const auto slow = those(gpus, has_slow_link);
  if (slow.empty()) return;
  const GpuDevice& first = slow.front();
  out.push_back({Grade::note,
                 "PCIe of " + named(slow, gpus) +
                     " is below what it can be: " + pcie(first.link_generation, first.link_width) + " of " +
                     pcie(first.most_generation, first.most_width),
                 "set the card firmly into a slot with all lanes, or check the riser and the firmware"});
}

void check_modes(Findings& out, const std::vector<GpuDevice>& gpus) {
  if (const auto off = those(gpus, [](const GpuDevice& gpu) { return gpu.is_persistent == false; });
      !off.empty()) {
    out.push_back({Grade::note,
                   "persistence mode is off on " + named(off, gpus) +
                       ": each start of a job first waits for the driver, seconds for each GPU",
                   "start nvidia-persistenced, or nvidia-smi -pm 1"});
  }
  if (const auto parts = those(gpus, [](const GpuDevice& gpu) { return gpu.is_partitioned == true; });
      !parts.empty()) {
    out.push_back({Grade::note,
                   "MIG is on for " + named(parts, gpus) + ": a rank gets a part of a GPU, without P2P",
                   "for large jobs: nvidia-smi -mig 0"});
  }
  const auto closed = those(gpus, [](const GpuDevice& gpu) { return gpu.compute_mode == "Prohibited"; });
  if (!closed.empty()) {
    out.push_back({Grade::bad,
                   "no program may compute on " + named(closed, gpus) + " (compute mode Prohibited)",
                   "nvidia-smi -c 0"});
  }
  const auto exclusive =
      those(gpus, [](const GpuDevice& gpu) { return gpu.compute_mode.starts_with("Exclusive"); });
  if (!exclusive.empty()) {
    out.push_back({Grade::note,
                   "one process at a time on " + named(exclusive, gpus) + " (compute mode " +
                       exclusive.front().compute_mode + "): ranks cannot share it",
                   "if they are to: nvidia-smi -c 0"});
  }
}

void check_processes(Findings& out, const GpuFacts& facts) {
  std::map<std::string, ShortList> by_gpu;
  for (const GpuProcess& one : facts.query.processes) by_gpu[one.bus_id].add(std::to_string(one.pid));
  const auto used =
      those(facts.query.gpus, [&](const GpuDevice& gpu) { return by_gpu.contains(gpu.bus_id); });
  if (used.empty()) return;
  out.push_back({Grade::note,
                 "other programs use " + named(used, facts.query.gpus) + " (" +
                     (used.size() == 1 ? "" : "first: ") + "process " + by_gpu[used.front().bus_id].text() +
                     ")",
                 "wait for its end, or end what an earlier job has left (dlaunch status; nvidia-smi)"});
}

void check_answers(Findings& out, const GpuQuery& query) {
  if (!query.timed_out) return;
  out.push_back({Grade::note, query.program + " stopped answering: links between GPUs are not checked",
                 "run nvidia-smi topo -m; look for Xid in the kernel's log (dmesg)"});
}

void check_unified_memory(Findings& out, const GpuFacts& facts) {
  if (facts.has_unified_memory || !facts.is_module_loaded) return;
  out.push_back({Grade::note,
                 "the kernel module nvidia_uvm is not loaded: CUDA programs fail unless they may load it",
                 "modprobe nvidia_uvm (nvidia-modprobe -u -c=0)"});
}

// --- NCCL ---

std::string wheel_for(const std::string& driver) {
  const auto major = parse_number<int>(driver.substr(0, driver.find('.')));
  return major && *major >= first_cuda13_driver ? "nvidia-nccl-cu13" : "nvidia-nccl-cu12";
}

Finding nccl(const GpuFacts& facts) {
  const std::string install =
      "pip install " + wheel_for(facts.driver) + ", or install the distribution's package (libnccl2)";
  const NcclFacts& found = facts.nccl;
  if (found.path.empty()) {
    return {Grade::note,
            "NCCL (libnccl.so.2) is neither where the loader looks, nor in CUDA_HOME, nor in the packages of "
            "Python: "
            "libdlaunch's backend nccl cannot be used",
            install};
  }
  if (!found.version) return {Grade::ok, "NCCL of unknown version: " + found.path, ""};
  const std::string text = "NCCL " + nccl_version_text(*found.version) +
                           (found.cuda.empty() ? "" : " for CUDA " + found.cuda) + ": " + found.path;
  if (*found.version < oldest_nccl)
    return {Grade::note, text + " is too old for libdlaunch's backend nccl, which needs 2.19", install};
  if (*found.version < sharing_nccl) return {Grade::ok, text + " (ranks that share a GPU need 2.30)", ""};
  return {Grade::ok, text, ""};
}

}  // namespace

Findings check_gpus(const GpuFacts& facts) {
  Findings findings;
  const std::vector<GpuDevice>& gpus = facts.query.gpus;
  if (gpus.empty()) {
    findings.push_back(facts.driver.empty() ? no_driver(facts) : no_answer(facts));
  } else {
    findings.push_back(headline(facts));
    check_lost(findings, facts);
    check_errors(findings, gpus);
    check_clocks(findings, gpus);
    check_pcie(findings, gpus);
    check_modes(findings, gpus);
    check_processes(findings, facts);
    check_unified_memory(findings, facts);
    check_answers(findings, facts.query);
    std::ranges::move(check_gpu_links(facts), std::back_inserter(findings));
  }
  if (!gpus.empty() || !facts.driver.empty()) findings.push_back(nccl(facts));
  std::ranges::move(check_fabric(facts), std::back_inserter(findings));
  return findings;
}

}  // namespace dlaunch::launcher
