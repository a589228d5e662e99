// What one worker of a group whose workers come and go knows of the others: those that it has asked the store
// for, or that have called it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/rpc/agent.h"
#include "runtime/rpc/member_directory.h"

namespace dlaunch::internal {

// Any thread. Calls may block, and throw DistError; a failure of the store is a DistStoreError.
class KnownWorkers {
 public:
  KnownWorkers(std::shared_ptr<Agent> agent, std::shared_ptr<MemberDirectory> directory)
      : agent_(std::move(agent)), directory_(std::move(directory)) {}

  // The worker that has the name or the rank, or had it last, also if it has left. It is valid as long as the
  // agent.
  const WorkerContact& find(std::string_view name);
  const WorkerContact& find(int rank);
  // The worker with this id, also if another has its rank now.
  const WorkerContact& find_id(std::uint32_t id);
  // Those that have not left and are not known to have died, by rank. It looks at each of them.
  std::vector<WorkerContact> all();
  // For the agent.
  static std::optional<WorkerContact> find_present(MemberDirectory& directory, std::uint32_t id);

  // Returns when the calls of this worker have ended, and then the functions that run here. From the first
  // moment on others find it no more, and from then on it takes no calls. Throws DistNetworkError that names
  // what has not ended at the deadline.
  void leave(Deadline deadline, std::chrono::milliseconds timeout);

 private:
  template <class Ids, class Key>
  const WorkerContact* known(const Ids& ids, const Key& key);
  const WorkerContact& learn(const MemberDirectory::Found& found);

  const std::shared_ptr<Agent> agent_;
  const std::shared_ptr<MemberDirectory> directory_;
  std::mutex mutex_;
  // protected by mutex_
  std::map<std::string, std::uint32_t, std::less<>> by_name_;
  std::map<std::uint32_t, std::uint32_t> by_rank_;
};

}  // namespace dlaunch::internal
