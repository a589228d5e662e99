// Devices of tensors in remote calls (rpc.h): what libdlaunch and libdlaunch_torch ask each other. Programs
// do not use it themselves.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dlaunch/bytes.h"
#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {
namespace rpc {
namespace rpc_detail {

// Those of a worker that is called, by this worker's device maps.
class DLAUNCH_EXPORT CalleeDevices final : public codec::ReceiverDevices {
 public:
  // `name`: returns the worker's, or throws DistError; for tensors of devices only.
  explicit CalleeDevices(std::function<std::string()> name) : name_(std::move(name)) {}
  [[nodiscard]] std::optional<int> find(int own) const override;
  [[nodiscard]] std::string why_none(int own) const override;

 private:
  const std::function<std::string()> name_;
};

// What only a framework knows. Any thread calls these; null: there are no devices.
struct DeviceHooks {
  // How many devices this process has.
  int (*count)() = nullptr;
  // The streams in which the calling thread works.
  std::shared_ptr<void> (*streams)() = nullptr;
  // This thread works in such streams until the result is destroyed.
  std::shared_ptr<void> (*enter)(const std::shared_ptr<void>& streams) = nullptr;
};
DLAUNCH_EXPORT void set_device_hooks(const DeviceHooks& hooks);

// The streams in which a thread works when it makes a call. The call's result is read in them, whichever
// thread reads it. Without device maps there are none.
class DLAUNCH_EXPORT CallerStreams {
 public:
  CallerStreams();
  // Until the result is destroyed.
  [[nodiscard]] std::shared_ptr<void> enter() const;

 private:
  std::shared_ptr<void> streams_;
};

}  // namespace rpc_detail
}  // namespace rpc
}  // namespace v1
}  // namespace dlaunch
