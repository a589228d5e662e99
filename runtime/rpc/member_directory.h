// The workers of a group that come and go, as the store knows them. No worker waits for another, and none
// knows more than those that it asks for.
//
// A worker claims an id, which no other worker of the group ever gets, and a name, which is free again when
// it has left or died. Each is a key of the store: "id/5", "name/ps".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/rpc/worker_contact.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// Any thread. All calls block, and throw StoreError.
class MemberDirectory {
 public:
  // `keys`: of this group alone.
  explicit MemberDirectory(std::shared_ptr<Store> keys) : keys_(std::move(keys)) {}

  // Claims the id, or the lowest one that is free. Throws DistError if another worker has it or had it.
  std::uint32_t claim_id(std::optional<std::uint32_t> wanted, const std::string& name);
  // Others find this worker from now on. Throws DistError if another one has its name. REQUIRES: it has
  // claimed its id.
  void join(const WorkerContact& self);
  // They do not find it any more.
  void leave(const WorkerContact& self);

  struct Found {
    WorkerContact worker;
    bool has_left = false;
  };
  // None: no worker has come under it.
  std::optional<Found> find(std::string_view name);
  std::optional<Found> find(std::uint32_t id);
  // Those that have not left, by id. A worker that has died is among them.
  std::vector<WorkerContact> all();

 private:
  std::optional<Found> at(const std::string& key);

  const std::shared_ptr<Store> keys_;
};

}  // namespace dlaunch::internal
