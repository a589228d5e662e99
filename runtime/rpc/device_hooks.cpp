#include "runtime/rpc/device_hooks.h"

#include <atomic>

#include "dlaunch/rpc_devices.h"
#include "runtime/rpc/rpc_world.h"

namespace dlaunch {
namespace internal {

namespace {

std::atomic<const rpc::rpc_detail::DeviceHooks*> device_hooks = nullptr;
std::atomic<bool> streams_are_followed = false;

}  // namespace

int device_count() {
  const auto* const hooks = device_hooks.load(std::memory_order_acquire);
  return hooks == nullptr ? 0 : hooks->count();
}

void follow_streams(bool follow) { streams_are_followed = follow; }

}  // namespace internal
using namespace internal;
inline namespace v1 {
namespace rpc::rpc_detail {

// Never destroyed: calls may be made until the process has ended.
void set_device_hooks(const DeviceHooks& hooks) {
  device_hooks.store(new DeviceHooks(hooks), std::memory_order_release);
}

CallerStreams::CallerStreams() {
  if (!streams_are_followed.load(std::memory_order_relaxed)) return;
  if (const DeviceHooks* const hooks = device_hooks.load(std::memory_order_acquire))
    streams_ = hooks->streams();
}

std::shared_ptr<void> CallerStreams::enter() const {
  return streams_ ? device_hooks.load(std::memory_order_acquire)->enter(streams_) : nullptr;
}

std::optional<int> CalleeDevices::find(int own) const {
  const auto member = RpcWorld::get().member("rpc");
  const auto& maps = member->agent->self().devices.maps;
  const auto map = maps.find(name_());
  if (map == maps.end()) return std::nullopt;
  const auto at = map->second.find(own);
  return at == map->second.end() ? std::nullopt : std::optional(at->second);
}

std::string CalleeDevices::why_none(int own) const {
  const std::string name = name_();
  return "no device map of this worker for worker " + name + " names it: call set_device_map(\"" + name +
         "\", {{" + std::to_string(own) + ", its device}}) on the RpcOptions of init_rpc, or pass its cpu()";
}

}  // namespace rpc::rpc_detail
}  // namespace v1
}  // namespace dlaunch
