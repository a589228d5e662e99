// The store servers that this process runs. There is one for a port at most; each ends with its last user.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "store/base/address.h"

namespace dlaunch {

struct ServedStore {
  Address address;  // with the real port
};

struct ServeRequest {
  Address address;                 // port 0: any that is free
  std::optional<int> socket = {};  // bound to that port; is taken, also if the call throws
  bool shares = false;             // may use the server of an earlier request that says so, too
};

// The server ends when the last of these is gone, but in a forked copy of the process, whose server it is
// not. Throws DistStoreError: the address cannot be served, or this process serves the port already and not
// both share it, or at another host.
std::shared_ptr<const ServedStore> serve_store(const ServeRequest& request);

// The same until the process ends, for rank 0 of a group; a second call for one port, or one that is served
// already, whatever for, does nothing more.
void serve_store_of_rank_zero(const Address& address);

}  // namespace dlaunch
