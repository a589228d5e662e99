// init_process_group(): which rank this process is, where the store is, and how the default group is formed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlaunch/distributed.h"
#include "runtime/group/backend_choice.h"
#include "runtime/group/group_impl.h"
#include "runtime/rendezvous/bootstrap.h"
#include "runtime/rendezvous/failure_detector.h"
#include "store/client/store.h"

namespace dlaunch::internal {

class GroupRendezvous;

// Which rank this is if no environment defines it.
struct RankPreset {
  int rank;
  int size;
  std::shared_ptr<Store> store;
  std::string backend;
  // Called from time to time while the default group is formed; what it throws ends that. None: nothing.
  std::function<void()> check = {};
};

// The backends this process knows, for all its worlds.
Registry& registry();

struct DefaultGroup {
  std::shared_ptr<GroupImpl> group;
  std::shared_ptr<Store> keys;
  std::string identity;  // distinguishes it from every other one of the job
  std::string master_host;
  std::vector<PeerInfo> peers;
};

// The number of default groups that all ranks have begun to form in a store, so that each does not find the
// keys of an earlier one. By a number that identifies the store: if its server dies, the next rank that
// serves one serves another store, whose ranks need not know how far the others came in the lost one.
using Generations = std::map<std::string, int>;

// One attempt. The steps in this order, once each.
class DefaultGroupInit {
 public:
  // Throws DistError if the options, the environment and the preset do not define a rank. REQUIRES: all
  // arguments live as long.
  DefaultGroupInit(const InitOptions& options, const std::optional<RankPreset>& preset,
                   Generations& generations);

  [[nodiscard]] const Identity& self() const { return self_; }
  [[nodiscard]] const std::string& backend() const { return backend_; }

  // Loads the backend and connects to the store. If the backend is not usable here, the other ranks are
  // informed.
  void prepare();
  // `ranks`: the members' ranks in the job, by rank; empty: 0 to world_size - 1.
  DefaultGroup form(const LivenessSocket* liveness_socket, std::vector<int> ranks = {});

 private:
  [[nodiscard]] Identity identify_self() const;
  [[nodiscard]] std::vector<ChosenModule> choose_or_reject();
  [[nodiscard]] std::shared_ptr<Store> open_store(Deadline deadline) const;
  int& generation_in(Store& store);
  [[nodiscard]] std::string identity(int generation) const;
  [[nodiscard]] bool serves_store() const { return self_.rank == 0 && !self_.store_is_served; }
  std::vector<PeerInfo> meet(GroupRendezvous& forming, Store& keys, int& generation) const;
  void wait_until_peers_informed(Store& keys, int informed_ranks, Deadline deadline) const;

  const InitOptions& options_;
  const std::optional<RankPreset>& preset_;
  Generations& generations_;
  const InitMethod method_;
  const Identity self_;
  std::string backend_;
  Deadline deadline_;
  std::vector<ChosenModule> modules_;
  std::shared_ptr<Store> store_;
};

}  // namespace dlaunch::internal
