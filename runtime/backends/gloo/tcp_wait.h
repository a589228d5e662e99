// A wait of one of the program's threads.
#pragma once

#include "runtime/backends/gloo/tcp_transport.h"

namespace dlaunch {

// With the endpoint's mutex held, from its beginning to its end. Returns when `condition()` holds, the
// transport has ended, or the deadline has passed.
class TcpTransport::Wait {
 public:
  template <class Condition>
  Wait(TcpTransport& owner, EndpointLock& lock, Wakeup& wakeup, Deadline deadline,
       const Condition& condition) {
    const auto is_over = [&] { return owner.ended_ || condition(); };
    if (is_over() || deadline == Deadline::min()) return;
    owner.waiting_.push_back(&wakeup);
    {
      // A wait without a deadline is one that nobody would miss.
      std::optional<Endpoint::ActiveWait> missed;
      if (deadline != Deadline::max()) missed.emplace(*owner.endpoint_);
      wakeup.wait(lock, deadline, is_over);
    }
    std::erase(owner.waiting_, &wakeup);
  }
};

}  // namespace dlaunch
