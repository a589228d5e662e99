// Whether the host at the other end of a connection still answers.
//
// A host that vanishes says nothing. Where nothing has been sent to it the kernel asks whether it is there
// (keepalive); where something has, it would go on sending that for a quarter of an hour, and the
// connection would not end. So the kernel is asked what it has heard. (A limit for what is unacknowledged,
// TCP_USER_TIMEOUT, would end the connection to a program that stands still, too.)
#pragma once

#include <netinet/tcp.h>

#include <chrono>

namespace dlaunch {

// As seen by looks at a connection, a second apart. The program there need not answer: what is sent to one
// that stands still is acknowledged by its host, or its host reports, each time that it is asked, that there
// is no room.
class KeepaliveMonitor {
 public:
  static constexpr auto limit = std::chrono::seconds(15);
  static constexpr auto check_interval = std::chrono::seconds(1);

  // True when nothing has been answered for `limit`. Looks are counted, not the time between them: while
  // this process stood still it knew nothing.
  bool check(const tcp_info& info);

 private:
  int unanswered_checks_ = 0;  // in a row that saw something unanswered
};

// Has the kernel ask a host that is sent nothing; the connection ends when it has not answered for
// KeepaliveMonitor::limit.
void enable_keepalive(int socket);

}  // namespace dlaunch
