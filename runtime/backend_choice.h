// From "gloo" or "cpu:gloo,cuda:nccl" to modules, and from modules to the backends of a group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/group_impl.h"
#include "runtime/registry.h"
#include "store/store.h"

namespace dlaunch {

struct ChosenModule {
  const BackendModule* module;
  std::vector<Device::Kind> devices;
};

// Throws DistBackendError: unreadable, unknown, not usable here, or not for that device.
std::vector<ChosenModule> choose_modules(Registry& registry, const std::string& text);

// Makes each module's backend. REQUIRES: all ranks of the group are doing the same.
std::vector<GroupImpl::DeviceBackend> make_backends(const std::vector<ChosenModule>& modules,
                                                    const std::shared_ptr<Store>& keys,
                                                    const GroupImpl::Description& group, Deadline deadline,
                                                    const std::string& master_host);

}  // namespace dlaunch
