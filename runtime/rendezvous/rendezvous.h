// How the ranks of a group that is being made meet, through the store.
//
// All say what they are about to do, and who says otherwise ends it for all, at once. A rank whose deadline
// passes goes away again, and all agree on that too: those who have time left begin anew, without it, and it
// finds them when it comes back. So one rank's failure never leaves the others with a number that it no
// longer shares. Those who wait look whether some who have come have died since.
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

namespace dlaunch {

struct RendezvousOptions {
  std::string call;          // for messages: "new_group"
  std::string statement;     // which all must make alike, for messages too: "the ranks 0, 1"
  int self;                  // who this is, for messages
  int rank;                  // among the members; -1: only compares its statement and waits for nobody
  std::vector<int> members;  // for messages, by rank
  std::span<const std::string> hosts = {};  // for messages, by those numbers; empty where unknown
  Deadline deadline;
  // Asked now and then while waiting. A DistNetworkError that it throws ends the wait, on all.
  std::function<void()> check = {};
  bool serves_store = false;  // others lose the store when this rank is gone
  const LivenessSocket* liveness_socket =
      nullptr;  // of which the others are told; where there is one theirs are looked for
};

// That the ranks do not agree. All are told, so all have made this attempt.
class RendezvousRejected : public DistNetworkError {
 public:
  using DistNetworkError::DistNetworkError;
};

// That a rank was lost, of which all who come are told.
class RendezvousPeerLost : public DistNetworkError {
 public:
  using DistNetworkError::DistNetworkError;
};

// Returns when all members have called it on (their connection to) the same store and prefix: where the
// members are; of a rank that waits for nobody: none. Throws RendezvousRejected; RendezvousPeerLost;
// DistNetworkError that names the ranks that did not come before the deadline, after which it may be called
// again; StoreError if the store fails; DistError if somebody else has joined as this rank. REQUIRES: where
// it has returned or thrown RendezvousRejected or RendezvousPeerLost, another prefix is used the next time.
std::vector<PeerInfo> rendezvous(Store& store, const RendezvousOptions& options);

// Instead of join(): the others are told that this rank does not come, and why.
void reject_rendezvous(Store& store, int self, const std::string& why);

// The numbers of the keys that do not exist. Few requests, however many keys there are.
std::vector<int> absent_keys(Store& store, std::span<const std::string> keys);

}  // namespace dlaunch
