// The state of the library's free functions: the default group, the groups made from it, and the store.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/distributed.h"
#include "runtime/base/own_process.h"
#include "runtime/group/default_group.h"
#include "runtime/group/group_impl.h"
#include "runtime/rendezvous/liveness_socket.h"
#include "store/client/store.h"

namespace dlaunch::internal {

class CoordinatedCall;
struct GroupPlan;

// One rank's. A process has one; if ranks are threads, each thread has its own. Any thread may call; init,
// new_group and destroy run one at a time.
class World {
 public:
  using Preset = RankPreset;

  World() = default;
  explicit World(Preset preset) : preset_(std::move(preset)) {}
  // A world whose default group is not the program's: it is made of a given store, beside others.
  struct Separate {
    std::vector<int> ranks;   // the members' ranks in the job, by rank; empty: the whole job
    Generations generations;  // of the stores that the process's separate worlds have used
  };
  explicit World(Separate separate)
      : separate_(std::move(separate.ranks)), generations_(std::move(separate.generations)) {}
  // In a forked copy of a process, whose preset it must not destroy. REQUIRES: this world has no group yet,
  // and the process has no other thread.
  void set_preset(Preset preset);

  void init(const InitOptions& options);
  // `operation`: for messages.
  ProcessGroup new_group(const std::string& operation, const std::vector<int>& ranks,
                         const NewGroupOptions& options);
  // A call of all ranks of the default group; `ranks` of them wait for each other.
  struct Agreement {
    std::string operation;  // for messages
    std::vector<int> ranks;
    std::string statement;
    std::optional<std::chrono::milliseconds> timeout = {};  // absent: the default group's
  };
  // Returns when all these ranks have made the same statement; any other rank only compares its own. Throws
  // DistNetworkError, on all of them, if one differs. `check_arguments` may throw DistError; the other ranks
  // then throw DistNetworkError with its text.
  void agree(const Agreement& agreement, const std::function<void()>& check_arguments);
  // In a forked copy of the process the groups of the original are forgotten: the copy may make its own.
  void destroy_all();
  void destroy(const ProcessGroup& group);
  void abort_all(const std::string& reason);  // all groups
  void leave();                               // all groups, when the process ends: see GroupImpl::leave

  [[nodiscard]] const std::optional<Preset>& preset() const { return preset_; }
  [[nodiscard]] bool is_initialized() const;
  // Throw DistError without a default group.
  [[nodiscard]] std::shared_ptr<GroupImpl> default_group() const;
  [[noreturn]] static void throw_uninitialized();
  // The same for one call of the program; null: there is none.
  [[nodiscard]] const HazardPointer<const ProcessGroup>& group_of_calls() const { return group_of_calls_; }
  [[nodiscard]] std::shared_ptr<Store> store() const;  // the default group's keys
  [[nodiscard]] std::size_t group_count() const;
  // REQUIRES: init() does not run.
  [[nodiscard]] const Generations& generations() const { return generations_; }

 private:
  [[nodiscard]] std::shared_ptr<GroupImpl> form_group(const CoordinatedCall& call, const GroupPlan& plan,
                                                      const std::shared_ptr<Store>& keys,
                                                      const std::string& identity) const;
  void init_with(const InitOptions& options);
  [[nodiscard]] std::unique_lock<std::mutex> look() const;
  [[nodiscard]] bool is_copied() const;
  void require_own_process(const std::string& operation) const;

  // Whether the worker's page shows the groups as those of the whole job.
  [[nodiscard]] bool is_whole_job() const { return !separate_ || separate_->empty(); }

  std::optional<Preset> preset_;
  const std::optional<std::vector<int>> separate_;
  std::atomic<OwnProcess> own_process_;  // the process that made the groups

  std::mutex making_;  // a group is being made or ended
  Generations generations_;
  std::unique_ptr<LivenessSocket> liveness_socket_;

  mutable std::mutex mutex_;
  // protected by mutex_
  std::optional<DefaultGroup> default_;               // written with making_ held, too
  HazardPointer<const ProcessGroup> group_of_calls_;  // read without mutex_
  std::vector<std::shared_ptr<GroupImpl>> groups_;    // the others, in the order in which they were made
  int groups_made_ = 0;
  std::map<std::vector<int>, int> local_groups_made_;  // with local synchronization, by members
  int agreements_ = 0;
};

// For the thread as long as this object lives.
class ThreadWorld {
 public:
  explicit ThreadWorld(World::Preset preset);
  ~ThreadWorld();
  ThreadWorld(const ThreadWorld&) = delete;
  ThreadWorld& operator=(const ThreadWorld&) = delete;

  // Whether one has ever been made: other programs are spared the look at thread-local memory.
  static bool any() { return made.load(std::memory_order_relaxed); }

 private:
  static inline constinit std::atomic<bool> made = false;

  World world_;
  World* const before_;
};

// The process's; null before the first call of world().
inline constinit std::atomic<World*> world_of_process = nullptr;
World& find_world();

// This thread's world, or the process's.
inline World& world() {
  World* const of_process = world_of_process.load(std::memory_order_acquire);
  return of_process != nullptr && !ThreadWorld::any() ? *of_process : find_world();
}

}  // namespace dlaunch::internal
