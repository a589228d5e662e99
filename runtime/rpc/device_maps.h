// Device maps (RpcOptions): whether they can be, and those of the workers that call this one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/rpc/worker_contact.h"

namespace dlaunch::internal {

// What is wrong with the devices and maps of a worker; empty: nothing. `all`: the workers that are known, and
// `all_known`: there are no others.
std::string why_wrong_devices(const WorkerContact& worker, const std::vector<WorkerContact>& all,
                              bool all_known);

// For results. Any thread.
class CallerDevices {
 public:
  // What the worker with an id has published; none: nothing is known of it. It may block, and throws
  // DistError.
  using Contact = std::function<std::optional<WorkerContact>(std::uint32_t id)>;

  // `self`: this worker's name.
  CallerDevices(std::string self, Contact contact) : self_(std::move(self)), contact_(std::move(contact)) {}

  // As codec::ReceiverDevices.
  [[nodiscard]] std::optional<int> find(std::uint32_t caller, int own);
  [[nodiscard]] std::string why_none(std::uint32_t caller, int own);

 private:
  const WorkerContact& contact_of(std::uint32_t caller);

  const std::string self_;
  const Contact contact_;
  std::mutex mutex_;
  std::map<std::uint32_t, WorkerContact> known_;  // protected by mutex_; none is removed
};

}  // namespace dlaunch::internal
