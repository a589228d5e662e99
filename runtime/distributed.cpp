#include "dlaunch/distributed.h"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/bootstrap.h"
#include "runtime/deadline.h"
#include "runtime/errors.h"
#include "runtime/group_impl.h"
#include "runtime/registry.h"
#include "store/contract/worker_env.h"
#include "store/prefix_store.h"

namespace dlaunch {
inline namespace v1 {

namespace {

// What the free functions share. Never destroyed: a program that ends without destroy_process_group must not
// wait for other ranks in a static destructor.
struct Process {
  Registry registry{backend_folders()};
  std::mutex mutex;
  // protected by mutex
  std::shared_ptr<GroupImpl> default_group;
  int groups_made = 0;  // a second default group must not find the first one's keys
};

Process& process() {
  static Process& only = *new Process;
  return only;
}

std::shared_ptr<GroupImpl> current_group() {
  const std::lock_guard lock(process().mutex);
  if (!process().default_group) {
    throw DistError("the default process group has not been initialized; call init_process_group() first");
  }
  return process().default_group;
}

// A part of a backend option: "gloo", "cpu:gloo".
struct BackendChoice {
  std::string device;  // empty: all that the module names
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
    if (words.size() > 2 || words.back().empty()) {
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

const BackendModule& find_module(const std::string& name) {
  const Result<const BackendModule*> found = process().registry.find(name);
  if (!found) throw DistBackendError(found.error().message());
  return **found;
}

struct ChosenModule {
  const BackendModule* module;
  std::vector<Device::Kind> devices;
};

std::vector<ChosenModule> choose_modules(const std::string& text) {
  std::vector<ChosenModule> chosen;
  for (const BackendChoice& choice : parse_backends(text)) {
    const BackendModule& module = find_module(choice.name);
    ChosenModule entry{&module, {}};
    for (const std::string_view device : split(module.devices, ',')) {
      if (choice.device.empty() || choice.device == device) entry.devices.push_back(device_kind(device));
    }
    if (entry.devices.empty()) {
      throw DistBackendError("backend '" + choice.name + "' works on " + module.devices + ", not on '" +
                             choice.device + "'");
    }
    chosen.push_back(std::move(entry));
  }
  return chosen;
}

std::shared_ptr<GroupImpl> make_default_group(const InitOptions& options, const Identity& self,
                                              int generation) {
  const Deadline deadline = deadline_after(options.timeout);
  const std::string backend = options.backend.empty() ? "gloo" : options.backend;
  const std::string name = "default";
  const std::vector<ChosenModule> modules = choose_modules(backend);

  const auto keys =
      std::make_shared<PrefixStore>("dlaunch/" + self.round + "/" + name + "/" + std::to_string(generation),
                                    connect_store(self.master, deadline));
  join(*keys, self.rank, self.world_size, deadline);
  // All ranks are here; what follows may count on their answers.

  std::vector<GroupImpl::DeviceBackend> backends;
  for (const ChosenModule& chosen : modules) {
    const auto own_keys = backend_store(std::make_shared<PrefixStore>(chosen.module->name, keys));
    const BackendContext context{*own_keys,       self.rank, self.world_size, name,
                                 options.timeout, deadline,  self.master.host};
    const std::shared_ptr<Backend> made = chosen.module->create(context);
    for (const Device::Kind device : chosen.devices) backends.push_back({device, made});
  }
  return std::make_shared<GroupImpl>(
      GroupImpl::Description{name, self.rank, self.world_size, options.timeout, backend},
      std::move(backends));
}

}  // namespace

void init_process_group(const InitOptions& options) {
  Process& here = process();
  const std::lock_guard lock(here.mutex);
  if (here.default_group) throw DistError("the default process group is already initialized");
  if (options.init_method != "env://") {
    throw DistError("init_method '" + options.init_method + "' is not known; known is env://");
  }
  if (options.timeout <= std::chrono::milliseconds(0))
    throw DistError("the timeout must be longer than 0 ms");
  const Result<Identity> self = identify(process_environment);
  if (!self) throw DistError(self.error().message());
  try {
    here.default_group = make_default_group(options, *self, here.groups_made++);
  } catch (...) {
    std::rethrow_exception(
        in_context(std::current_exception(), {.rank = self->rank, .operation = "init_process_group"}));
  }
}

void destroy_process_group() {
  const std::shared_ptr<GroupImpl> group = current_group();
  group->destroy();
  const std::lock_guard lock(process().mutex);
  process().default_group = nullptr;
}

bool is_initialized() {
  const std::lock_guard lock(process().mutex);
  return process().default_group != nullptr;
}

ProcessGroup default_group() { return GroupImpl::handle(current_group()); }
int get_rank() { return current_group()->description().rank; }
int get_world_size() { return current_group()->description().size; }
std::string get_backend() { return current_group()->description().backend; }

void register_backend(const BackendModule& module) {
  if (Result<void> added = process().registry.add(module); !added) throw DistError(added.error().message());
}

bool is_backend_available(std::string_view name) { return process().registry.find(name).ok(); }
bool is_gloo_available() { return is_backend_available("gloo"); }

bool is_dlaunch_launched() { return process_environment(env::version).has_value(); }
bool is_torchelastic_launched() { return process_environment(env::run_id).has_value(); }

}  // namespace v1
}  // namespace dlaunch
