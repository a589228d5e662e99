#include "runtime/group/backend_choice.h"

#include <algorithm>
#include <array>
#include <exception>
#include <set>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/record/recorder.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/staging/staged_backend.h"
#include "store/client/prefix_store.h"

namespace dlaunch::internal {

namespace {

// A part of a backend option: "gloo", "cpu:gloo".
struct BackendChoice {
  std::string device;  // empty: all devices of the module
  std::string name;
};

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<BackendChoice> parse_backends(std::string_view text) {
  std::vector<BackendChoice> choices;
  for (const std::string_view part : split(text, ',')) {
    const std::vector<std::string_view> words = split(part, ':');
    if (words.size() > 2 || words.front().empty() || words.back().empty()) {
      throw DistBackendError("cannot read backend '" + std::string(text) +
                             "'; write a name, or one for each device as in cpu:gloo,cuda:nccl");
    }
    choices.push_back({words.size() == 2 ? std::string(words.front()) : "", std::string(words.back())});
  }
  return choices;
}

Device::Kind device_kind(std::string_view name) {
  if (name == "cpu") return Device::Kind::cpu;
  if (name == "cuda") return Device::Kind::cuda;
  throw DistBackendError("unknown device '" + std::string(name) + "'; known are cpu and cuda");
}

std::string name_of(Device::Kind device) { return device == Device::Kind::cpu ? "cpu" : "cuda"; }

// Those of the module itself, or the one that is named.
std::vector<Device::Kind> devices_of(const BackendModule& module, const BackendChoice& choice) {
  std::vector<Device::Kind> devices;
  for (const std::string_view device : split(module.devices, ',')) {
    if (choice.device.empty() || choice.device == device) devices.push_back(device_kind(device));
  }
  if (devices.empty() && module.stages_cuda && choice.device == "cuda") return {Device::Kind::cuda};
  return devices;
}

// One for a module, also if its devices are named one by one: it is one backend.
ChosenModule& entry_of(std::vector<ChosenModule>& chosen, const BackendModule& module) {
  const auto found = std::ranges::find(chosen, &module, &ChosenModule::module);
  if (found != chosen.end()) return *found;
  return chosen.emplace_back(ChosenModule{&module, {}});
}

// Whether tensors of that device come to the module by way of the host's memory.
bool is_staged(const BackendModule& module, Device::Kind device) {
  const std::vector<std::string_view> own = split(module.devices, ',');
  return std::ranges::find(own, name_of(device)) == own.end();
}

const BackendModule& find_module(Registry& registry, const std::string& name) {
  const Result<const BackendModule*> found = registry.find(name);
  if (!found) throw DistBackendError(found.error().message());
  return **found;
}

}  // namespace

std::vector<ChosenModule> choose_modules(Registry& registry, const std::string& text) {
  std::vector<ChosenModule> chosen;
  std::set<Device::Kind> served;
  std::vector<const BackendModule*> for_all_devices;
  for (const BackendChoice& choice : parse_backends(plain_name(text))) {
    const BackendModule& module = find_module(registry, choice.name);
    if (choice.device.empty()) for_all_devices.push_back(&module);
    const std::vector<Device::Kind> devices = devices_of(module, choice);
    if (devices.empty()) {
      throw DistBackendError("backend '" + choice.name + "' works on " + module.devices + ", not on '" +
                             choice.device + "'");
    }
    for (const Device::Kind device : devices) {
      if (served.insert(device).second) continue;
      throw DistBackendError("backend '" + text + "' names two backends for the device " + name_of(device));
    }
    std::vector<Device::Kind>& its_devices = entry_of(chosen, module).devices;
    its_devices.insert(its_devices.end(), devices.begin(), devices.end());
  }
  for (const BackendModule* const module : for_all_devices) {
    if (!module->stages_cuda || !served.insert(Device::Kind::cuda).second) continue;
    entry_of(chosen, *module).devices.push_back(Device::Kind::cuda);
  }
  // A control plane is made before the backends that use it.
  const auto own_use = [](const ChosenModule& one) { return !one.module->uses_control_plane; };
  const auto first_user = std::stable_partition(chosen.begin(), chosen.end(), own_use);
  if (first_user == chosen.begin() && first_user != chosen.end()) {
    const Result<const BackendModule*> gloo = registry.find("gloo");
    if (gloo) chosen.insert(chosen.begin(), ChosenModule{*gloo, {}});
  }
  return chosen;
}

std::string checked_name(Registry& registry, std::string_view text) {
  constexpr std::array<std::string_view, 5> always = {"gloo", "nccl", "mpi", "ucc", "undefined"};
  std::string plain = plain_name(text);
  for (const BackendChoice& choice : parse_backends(plain)) {
    if (!choice.device.empty()) (void)device_kind(choice.device);
    if (std::ranges::find(always, choice.name) != always.end()) continue;
    const Result<const BackendModule*> found = registry.find(choice.name);
    if (!found && found.error().kind == ErrorKind::not_found) {
      throw DistBackendError(found.error().message());
    }
  }
  return plain;
}

std::string in_words(const std::vector<ChosenModule>& modules) {
  std::string text;
  for (const ChosenModule& chosen : modules) {
    for (const Device::Kind device : chosen.devices) {
      text += (text.empty() ? "" : ",") + name_of(device) + ":" + chosen.module->name;
    }
  }
  return text;
}

namespace {

// Its errors name the peer's host.
std::shared_ptr<Backend> create(const BackendModule& module, const BackendContext& context,
                                const std::vector<std::string>& hosts) {
  try {
    return module.create(context);
  } catch (const DistError& e) {
    const int peer = e.context().peer;
    if (peer < 0 || static_cast<std::size_t>(peer) >= hosts.size()) throw;
    std::rethrow_exception(
        in_context(std::current_exception(), {.host = hosts[static_cast<std::size_t>(peer)]}));
  }
}

// In an order in which each comes behind those that it uses.
void add_backend(std::vector<GroupImpl::DeviceBackend>& backends, const ChosenModule& chosen,
                 const std::shared_ptr<Backend>& made, int rank) {
  bool is_on_no_device = true;
  std::vector<GroupImpl::DeviceBackend> staged;
  for (const Device::Kind device : chosen.devices) {
    if (is_staged(*chosen.module, device)) {
      staged.push_back({device, std::make_shared<StagedBackend>(made, rank), chosen.module});
    } else {
      backends.push_back({device, made, chosen.module});
      is_on_no_device = false;
    }
  }
  if (is_on_no_device) backends.push_back({std::nullopt, made, chosen.module});
  backends.insert(backends.end(), staged.begin(), staged.end());
}

std::function<void()> check_of(const std::shared_ptr<Backend>& control_plane) {
  if (!control_plane) return {};
  return [control_plane] { control_plane->check(); };
}

}  // namespace

std::vector<GroupImpl::DeviceBackend> make_backends(const std::vector<ChosenModule>& modules,
                                                    const std::shared_ptr<Store>& keys,
                                                    const GroupDescription& group, Deadline deadline,
                                                    const std::string& master_host,
                                                    const std::function<void()>& check,
                                                    const SplitSource& split) {
  std::vector<GroupImpl::DeviceBackend> backends;
  for (const ChosenModule& chosen : modules) {
    const auto own_keys = backend_store(std::make_shared<PrefixStore>(chosen.module->name, keys), check);
    BackendContext context{
        *own_keys,   group.rank,    group.size,
        group.name,  group.timeout, deadline,
        master_host, check,         [](const std::string& message) { log(LogLevel::debug, message); }};
    context.cuda_device = group.cuda_device;
    context.on_connection = [ranks = group.ranks](int peer, int socket) {
      record_link(ranks.empty() ? peer : ranks[static_cast<std::size_t>(peer)], socket);
    };
    if (chosen.module == split.module) {
      context.parent = split.backend;
      context.parent_ranks = group.ranks;
    }
    if (chosen.module->uses_control_plane) {
      if (!backends.empty()) context.control_plane = backends.front().backend;
      context.lasting_store = backend_store(std::make_shared<PrefixStore>(chosen.module->name, keys),
                                            check_of(context.control_plane));
    }
    const std::shared_ptr<Backend> made = create(*chosen.module, context, group.hosts);
    add_backend(backends, chosen, made, group.rank);
  }
  return backends;
}

}  // namespace dlaunch::internal
