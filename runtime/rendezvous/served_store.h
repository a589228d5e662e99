// The store servers that this process runs: at most one for a port; each ends with its last user.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "store/base/address.h"

namespace dlaunch::internal {

struct ServedStore {
  Address address;  // with the real port
};

struct ServeRequest {
  Address address;                 // port 0: any that is free
  std::optional<int> socket = {};  // bound to that port; the call owns it, also if it throws
  bool shares = false;             // may use the server of an earlier request that sets this, too
};

// The server ends with the last of these handles, except in a forked copy of the process, which does not own
// it. Throws DistStoreError: the address cannot be served, or this process serves the port already for a
// request that does not share it or has another host.
std::shared_ptr<const ServedStore> serve_store(const ServeRequest& request);

// The same until the process ends, for rank 0 of a group. Does nothing if this process already serves the
// port, for any purpose.
void serve_store_of_rank_zero(const Address& address);

}  // namespace dlaunch::internal
