// A group's TCP connections, on as many network interfaces as the group uses.
#pragma once

#include <memory>

#include "dlaunch/transport.h"

namespace dlaunch::internal {

class TcpTransport;

struct GlooConnections {
  std::unique_ptr<Transport> transport;
  TcpTransport* first;  // of the interfaces; part of `transport`
};

// Called by every rank of the group. Throws DistNetworkError, DistBackendError or DistStoreError.
GlooConnections connect_over_gloo(const BackendContext& context);

}  // namespace dlaunch::internal
