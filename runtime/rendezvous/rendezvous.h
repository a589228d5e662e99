// How the ranks of a new group meet, through the store.
//
// Every rank states the call it makes; a rank with another statement ends the attempt for all, at once. If a
// rank's deadline passes, it withdraws, and all ranks agree on that too: those with time left start a new
// attempt without it, which it joins if it calls again. So after one rank's failure all ranks still share the
// number of the attempt. Waiting ranks check whether others have died since they registered.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/error.h"
#include "runtime/rendezvous/failure_detector.h"
#include "store/client/store.h"

namespace dlaunch::internal {

struct RendezvousOptions {
  std::string call;          // for messages: "new_group"
  std::string statement;     // must be equal on all ranks; for messages too: "the ranks 0, 1"
  int self;                  // this rank, for messages
  int rank;                  // among the members; -1: only compares its statement and does not wait
  std::vector<int> members;  // for messages, by rank
  std::span<const std::string> hosts = {};  // for messages, by those numbers; empty where unknown
  Deadline deadline;
  // Called from time to time while waiting. A DistNetworkError that it throws ends the wait, on all ranks.
  std::function<void()> check = {};
  bool serves_store = false;  // others lose the store when this rank is gone
  const LivenessSocket* liveness_socket =
      nullptr;  // published to the others; if there is one, the others' sockets are probed
};

// The ranks do not agree. All ranks of the attempt throw it.
class RendezvousRejected : public DistNetworkError {
 public:
  using DistNetworkError::DistNetworkError;
};

// A rank was lost. All ranks of the attempt throw it.
class RendezvousPeerLost : public DistNetworkError {
 public:
  using DistNetworkError::DistNetworkError;
};

// Returns when all members have called it on (their connection to) the same store and prefix. The result is
// the members' data; empty for a rank that does not wait. Throws RendezvousRejected; RendezvousPeerLost;
// DistNetworkError that names the ranks missing at the deadline, after which it may be called again;
// StoreError if the store fails; DistError if another process has joined as this rank. REQUIRES: after a
// return, RendezvousRejected or RendezvousPeerLost the next call uses another prefix.
std::vector<PeerInfo> rendezvous(Store& store, const RendezvousOptions& options);

// Instead of rendezvous(): the others throw RendezvousRejected with the reason why this rank does not join.
void reject_rendezvous(Store& store, int self, const std::string& why);

// The numbers of the keys that do not exist. Few requests, however many keys there are.
std::vector<int> absent_keys(Store& store, std::span<const std::string> keys);

}  // namespace dlaunch::internal
