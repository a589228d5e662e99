// The workers of a group that come and go, as the store knows them. No worker waits for another, and none
// knows more than those that it asks for.
//
// A worker has a rank and a name, which are free again when it has left or died, and an id, which no other
// worker of the group ever gets: so what was meant for a worker that has died never reaches the one that has
// taken its rank over. Each is a key of the store: "rank/5", "name/ps", "id/5".
#pragma once

#include <cstdint>
#include <functional>
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
  static constexpr std::uint32_t most_ranks = 1U << 23U;  // and lower ones only

  // `keys`: of this group alone.
  explicit MemberDirectory(std::shared_ptr<Store> keys) : keys_(std::move(keys)) {}

  // Claims the rank, or the lowest one that no worker has had. `self` gets rank and id. Its contact is an
  // address at which the process listens until it has joined. Throws DistError if another worker has the
  // rank.
  void claim_rank(std::optional<std::uint32_t> wanted, WorkerContact& self);
  // Others find this worker from now on. Throws DistError if another one has its name. REQUIRES: it has
  // claimed its rank.
  void join(const WorkerContact& self);
  // They do not find it any more.
  void leave(const WorkerContact& self);

  struct Found {
    WorkerContact worker;
    bool has_left = false;
  };
  // The worker that has it, or had it last. None: no worker has come under it.
  std::optional<Found> find(std::string_view name);
  std::optional<Found> find_rank(std::uint32_t rank);
  std::optional<Found> find_id(std::uint32_t id);
  // Those that have not left, by rank. A worker that has died is among them until another takes its rank.
  std::vector<WorkerContact> all();

 private:
  using OnHeld = std::function<void(const WorkerContact& holder)>;
  void take(const std::string& key, const std::string& entry, const OnHeld& on_held);
  std::optional<Found> at(const std::string& key);

  const std::shared_ptr<Store> keys_;
};

}  // namespace dlaunch::internal
