// The connections of one group, each rank's with each other, as Gloo's context.
//
// Why not by Gloo's own rendezvous: the limit that it gives a connection for coming about stays that of all
// waits for bound buffers on it, whatever the operation's deadline is; a process that stands still for so
// long (stopped, in a debugger, suspended) would break its group when it goes on. Here connections have no
// limit of their own, and their coming about is ended from outside.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <optional>

#include "dlaunch/backend.h"
#include "runtime/backends/gloo/sockets.h"

namespace dlaunch {

class Mesh final : public ::gloo::Context {
 public:
  // Called by every rank. Throws DistNetworkError, DistStoreError or Gloo's exceptions.
  Mesh(const BackendContext& context, const std::shared_ptr<::gloo::transport::Device>& device);

  [[nodiscard]] Sockets& sockets() { return *sockets_; }

 private:
  std::optional<Sockets> sockets_;  // once connected
};

}  // namespace dlaunch
