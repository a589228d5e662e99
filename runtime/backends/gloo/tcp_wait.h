// How a thread of the program waits.
#pragma once

#include "runtime/backends/gloo/tcp_transport.h"

namespace dlaunch::internal {

// Returns when `condition()` holds, the transport has ended, or the deadline has passed. REQUIRES: the
// endpoint's mutex is held from beginning to end.
class TcpTransport::Wait {
 public:
  template <class Condition>
  Wait(TcpTransport& owner, EndpointLock& lock, Wakeup& wakeup, Deadline deadline,
       const Condition& condition) {
    const auto is_over = [&] { return owner.ended_ || condition(); };
    if (is_over() || deadline == Deadline::min()) return;
    owner.waiting_.push_back(&wakeup);
    {
      // An idle thread waits without a deadline: such a wait needs no keepalive checks.
      std::optional<Endpoint::ActiveWait> missed;
      if (deadline != Deadline::max()) missed.emplace(*owner.endpoint_);
      wakeup.wait(lock, deadline, is_over);
    }
    std::erase(owner.waiting_, &wakeup);
  }
};

}  // namespace dlaunch::internal
