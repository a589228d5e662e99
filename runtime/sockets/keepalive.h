// Whether the host at the other end of a connection still answers.
//
// A host that vanishes sends nothing. On an idle connection the kernel probes it (keepalive). With
// unacknowledged bytes the kernel would retransmit for a quarter of an hour before the connection ended; so
// this class asks the kernel what it has received. (TCP_USER_TIMEOUT, a limit for unacknowledged bytes, would
// also end the connection to a stopped program.)
#pragma once

#include <netinet/tcp.h>

#include <chrono>

namespace dlaunch::internal {

// Checks a connection once a second. The peer program need not answer: for a stopped program its host
// acknowledges the bytes, or reports at each probe that there is no room.
class KeepaliveMonitor {
 public:
  static constexpr auto limit = std::chrono::seconds(15);
  static constexpr auto check_interval = std::chrono::seconds(1);

  // True when nothing has been answered for `limit`. Counts checks, not time: while this process was stopped
  // it learned nothing.
  bool check(const tcp_info& info);

 private:
  int unanswered_checks_ = 0;  // in a row that found unanswered bytes
};

// Makes the kernel probe an idle peer; the connection ends when the peer has not answered for
// KeepaliveMonitor::limit.
void enable_keepalive(int socket);

}  // namespace dlaunch::internal
