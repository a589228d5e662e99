// A group's connections over Gloo, on as many network interfaces as it is to use.
#pragma once

#include <memory>

#include "dlaunch/transport.h"

namespace dlaunch {

// Called by every rank of the group. Throws DistNetworkError, DistBackendError or DistStoreError.
std::unique_ptr<Transport> connect_over_gloo(const BackendContext& context);

}  // namespace dlaunch
