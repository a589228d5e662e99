#include "runtime/sockets/keepalive.h"

#include <netinet/in.h>
#include <sys/socket.h>

namespace dlaunch::internal {

namespace {

// A silent host is noticed after idle + count * interval, which is KeepaliveMonitor::limit.
constexpr int keepalive_idle = 6;  // seconds
constexpr int keepalive_interval = 3;
constexpr int keepalive_count = 3;
static_assert(std::chrono::seconds(keepalive_idle + keepalive_count * keepalive_interval) ==
              KeepaliveMonitor::limit);

}  // namespace

bool KeepaliveMonitor::check(const tcp_info& info) {
  // One lost segment means nothing: the kernel sends it again.
  const bool unacknowledged = info.tcpi_unacked > 0 && info.tcpi_retransmits >= 2;
  const bool unanswered_about_room = info.tcpi_probes >= 3;
  unanswered_checks_ = unacknowledged || unanswered_about_room ? unanswered_checks_ + 1 : 0;
  return unanswered_checks_ >= limit / check_interval &&
         std::chrono::milliseconds(info.tcpi_last_ack_recv) >= limit;
}

void enable_keepalive(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, keepalive_count);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace dlaunch::internal
