// A group's TCP connections, on as many network interfaces as the group uses.
#pragma once

#include <memory>

#include "dlaunch/transport.h"

namespace dlaunch::internal {

// Called by every rank of the group. Throws DistNetworkError, DistBackendError or DistStoreError.
std::unique_ptr<Transport> connect_over_gloo(const BackendContext& context);

}  // namespace dlaunch::internal
