#include "runtime/rpc/device_maps.h"

#include <algorithm>
#include <set>

#include "store/base/text.h"

namespace dlaunch::internal {

namespace {

constexpr int highest_device = 1023;  // as in stream.h

std::string device(int number) { return "device " + std::to_string(number); }

// What is wrong with a device of this worker, as the rest of a sentence that names it; empty: nothing.
std::string why_no_device(const WorkerContact& of, int number) {
  const WorkerDevices& devices = of.devices;
  const std::string name = device(number) + " of worker " + of.name;
  if (number < 0 || number >= devices.count) {
    if (devices.count == 0) return name + ", which has no devices: CUDA and libdlaunch_torch show it some";
    return name + ", which has " + pluralize(devices.count, "device") +
           (devices.count == 1 ? ": 0" : ": 0 to " + std::to_string(devices.count - 1));
  }
  if (!devices.used.empty() && std::ranges::find(devices.used, number) == devices.used.end())
    return name + ", which is not one of the devices in that worker's RpcOptions";
  return {};
}

// As the rest of a sentence about the map. `there`: null if nothing is known of the callee.
std::string why_wrong_map(const WorkerContact& worker, const std::string& callee,
                          const WorkerDevices::Map& map, const WorkerContact* there) {
  std::map<int, int> inverse;
  for (const auto& [from, to] : map) {
    std::string wrong = why_no_device(worker, from);
    if (wrong.empty() && there != nullptr) wrong = why_no_device(*there, to);
    if (wrong.empty() && (to < 0 || to > highest_device)) wrong = device(to) + " of worker " + callee;
    if (!wrong.empty()) return "names " + wrong;
    if (const auto [before, is_new] = inverse.emplace(to, from); !is_new) {
      return "has " + device(to) + " for the devices " + std::to_string(before->second) + " and " +
             std::to_string(from) + ": results could not go back; give each a device of its own";
    }
  }
  return {};
}

}  // namespace

std::string why_wrong_devices(const WorkerContact& worker, const std::vector<WorkerContact>& all,
                              bool all_known) {
  std::set<int> seen;
  for (const int used : worker.devices.used) {
    const std::string why = why_no_device(worker, used);
    if (!why.empty()) return "the devices in the RpcOptions of worker " + worker.name + " name " + why;
    if (!seen.insert(used).second)
      return "the devices in the RpcOptions of worker " + worker.name + " name " + device(used) + " twice";
  }
  for (const auto& [callee, map] : worker.devices.maps) {
    const auto there = std::ranges::find(all, callee, &WorkerContact::name);
    if (there == all.end() && all_known) {
      ShortList names;
      for (const WorkerContact& one : all) names.add(one.name);
      return "worker " + worker.name + " has a device map for worker " + quoted(callee) + ", and there are " +
             names.text();
    }
    const std::string why = why_wrong_map(worker, callee, map, there == all.end() ? nullptr : &*there);
    if (why.empty()) continue;
    std::string statement = "the device map of worker " + worker.name;
    statement += " for worker " + callee;
    statement += " " + why;
    return statement;
  }
  return {};
}

const WorkerContact& CallerDevices::contact_of(std::uint32_t caller) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = known_.find(caller); at != known_.end()) return at->second;
  }
  std::optional<WorkerContact> found = contact_(caller);
  if (!found) found = WorkerContact{.name = std::to_string(caller), .id = caller, .host = {}, .contact = {}};
  const std::lock_guard lock(mutex_);
  return known_.emplace(caller, *std::move(found)).first->second;
}

std::optional<int> CallerDevices::find(std::uint32_t caller, int own) {
  const WorkerDevices& devices = contact_of(caller).devices;
  const auto map = devices.maps.find(self_);
  if (map == devices.maps.end()) return std::nullopt;
  for (const auto& [theirs, here] : map->second)
    if (here == own) return theirs;
  return std::nullopt;
}

std::string CallerDevices::why_none(std::uint32_t caller, int own) {
  const std::string& name = contact_of(caller).name;
  return "the device map of worker " + name + " for worker " + self_ +
         " does not name it: call set_device_map(" + '"' + self_ + "\", {{its device, " +
         std::to_string(own) + "}}) on the RpcOptions of worker " + name + ", or return its cpu()";
}

}  // namespace dlaunch::internal
