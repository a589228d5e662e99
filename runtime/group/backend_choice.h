// From "gloo" or "cpu:gloo,cuda:nccl" to modules, and from modules to the backends of a group.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/backend/registry.h"
#include "runtime/group/group_impl.h"
#include "store/client/store.h"

namespace dlaunch::internal {

struct ChosenModule {
  const BackendModule* module;
  std::vector<Device::Kind> devices;  // none: the control plane of the others only
};

// Throws DistBackendError: unreadable, unknown, not usable here, not for that device, or two for one.
std::vector<ChosenModule> choose_modules(Registry& registry, const std::string& text);

// The text in lower case. Throws DistBackendError: unreadable, an unknown device, or a name that is neither
// torch.distributed's nor in the registry. It is no error if the backend cannot be used in this process.
std::string checked_name(Registry& registry, std::string_view text);

// The same text for the same modules and devices: "cpu:gloo,cuda:nccl".
std::string in_words(const std::vector<ChosenModule>& modules);

// A backend of the default group from which that of a new group is made, together with all its ranks.
struct SplitSource {
  const BackendModule* module = nullptr;  // null: there is none
  std::shared_ptr<Backend> backend = {};
};

// Makes each module's backend, in this order. `check`: as backend_store's. REQUIRES: all ranks of the group
// do the same concurrently.
std::vector<GroupImpl::DeviceBackend> make_backends(const std::vector<ChosenModule>& modules,
                                                    const std::shared_ptr<Store>& keys,
                                                    const GroupDescription& group, Deadline deadline,
                                                    const std::string& master_host,
                                                    const std::function<void()>& check,
                                                    const SplitSource& split = {});

}  // namespace dlaunch::internal
