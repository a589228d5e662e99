// How the workers find each other, and how they agree that no call is under way any more: through the store.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/rpc/worker_contact.h"
#include "store/client/store.h"

namespace dlaunch::internal {

// One worker's view of all. Used by one thread at a time.
class WorkerSet {
 public:
  // `keys`: of this set alone. `serves_store`: others lose the store when this process ends.
  WorkerSet(std::shared_ptr<Store> keys, WorkerContact self, int size, bool serves_store)
      : keys_(std::move(keys)), self_(std::move(self)), size_(size), serves_store_(serves_store) {}

  // Returns all workers, by id, when all have come. Throws DistNetworkError that names the missing or lost
  // ones, DistError if two have one name, and StoreError.
  const std::vector<WorkerContact>& meet(Deadline deadline, const std::string& master_host);
  [[nodiscard]] const std::vector<WorkerContact>& workers() const { return workers_; }

  // Returns when all workers have called it, and calls that one makes for another have ended everywhere.
  // `idle`: waits until no call of this worker waits and none runs here, and returns how many it has had.
  // Throws DistNetworkError that names those that have not come at the deadline, or are lost.
  void leave(Deadline deadline, const std::function<std::uint64_t()>& idle);
  // Throws DistNetworkError if one that has not left is known to be lost.
  void check();

 private:
  [[nodiscard]] std::string key(const std::string& what, int rank) const;
  [[nodiscard]] std::vector<std::string> keys_of(const std::string& what) const;
  std::vector<std::string> exchange(const std::string& what, const std::string& own, Deadline deadline);
  void await_readers(Deadline deadline);

  const std::shared_ptr<Store> keys_;
  const WorkerContact self_;
  const int size_;
  const bool serves_store_;
  std::vector<WorkerContact> workers_;
  std::vector<int> awaited_;  // who may be lost
  Deadline next_check_;
};

}  // namespace dlaunch::internal
