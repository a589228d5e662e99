// Keys that the ranks of a group that is being made exchange through its store.
#pragma once

#include <string>

#include "dlaunch/backend.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {

// Waits until that rank has set the key. At the deadline throws a DistNetworkError that names the rank.
inline std::string wait_for_peer_key(int peer, const std::string& key, const BackendContext& context) {
  try {
    return context.store.get(key, context.deadline);
  } catch (const DistStoreError&) {
    if (!has_passed(context.deadline)) throw;
    throw DistNetworkError("it did not publish its addresses before the deadline", {.peer = peer});
  }
}

}  // namespace dlaunch::internal
