#include "agent/observe/tcp_links.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace dlaunch::agent {
namespace {

constexpr std::size_t piece = 64UL * 1024;
constexpr timeval patience{1, 0};  // the kernel answers at once

struct Request {
  nlmsghdr head;
  inet_diag_req_v2 body;
};

bool ask(int fd, std::uint8_t family) {
  Request request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = family;
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1U << (INET_DIAG_INFO - 1U);
  // Established, or closed by one end only (the numbers of TCP_ESTABLISHED and so on).
  constexpr std::uint32_t established = 1;
  constexpr std::uint32_t first_fin_wait = 4;
  constexpr std::uint32_t close_wait = 8;
  request.body.idiag_states = 1U << established | 1U << first_fin_wait | 1U << close_wait;
  return send(fd, &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request);
}

LinkState link_state_of(const tcp_info& info) {
  using std::chrono::milliseconds;
  LinkState link;
  link.unacknowledged = info.tcpi_unacked;
  link.unsent = info.tcpi_notsent_bytes;
  link.retransmissions = info.tcpi_retransmits;
  link.probes = info.tcpi_probes;
  link.silent = milliseconds(info.tcpi_last_ack_recv);
  link.since_sent = milliseconds(info.tcpi_last_data_sent);
  return link;
}

void add(const nlmsghdr& head, std::map<std::uint64_t, LinkState>& found) {
  inet_diag_msg message{};
  if (head.nlmsg_len < NLMSG_LENGTH(sizeof message)) return;
  const char* const body = reinterpret_cast<const char*>(&head) + NLMSG_HDRLEN;
  std::memcpy(&message, body, sizeof message);
  std::size_t left = head.nlmsg_len - NLMSG_LENGTH(sizeof message);
  const char* at = body + NLMSG_ALIGN(sizeof message);
  while (left >= sizeof(rtattr)) {
    rtattr attribute{};
    std::memcpy(&attribute, at, sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > left) return;
    if (attribute.rta_type == INET_DIAG_INFO) {
      tcp_info info{};  // an older kernel's is shorter
      const std::size_t size = std::min(sizeof info, attribute.rta_len - RTA_LENGTH(0));
      std::memcpy(&info, at + RTA_LENGTH(0), size);
      if (info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0)
        found[message.idiag_inode] = link_state_of(info);
    }
    const std::size_t step = std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), left);
    at += step;
    left -= step;
  }
}

// False: this was the last part, or there is no answer.
bool take_part(int fd, std::vector<char>& buffer, std::map<std::uint64_t, LinkState>& found) {
  ssize_t got = -1;
  do {
    got = recv(fd, buffer.data(), buffer.size(), 0);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  std::size_t left = static_cast<std::size_t>(got);
  for (const char* at = buffer.data(); left >= sizeof(nlmsghdr);) {
    const auto& head = *reinterpret_cast<const nlmsghdr*>(at);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > left) return false;
    if (head.nlmsg_type == NLMSG_DONE || head.nlmsg_type == NLMSG_ERROR) return false;
    add(head, found);
    const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(head.nlmsg_len), left);
    at += step;
    left -= step;
  }
  return true;
}

}  // namespace

std::map<std::uint64_t, LinkState> waiting_tcp_links() {
  std::map<std::uint64_t, LinkState> found;
  std::vector<char> buffer(piece);
  for (const int family : {AF_INET, AF_INET6}) {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) return found;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (ask(fd, static_cast<std::uint8_t>(family))) {
      while (take_part(fd, buffer, found)) {
      }
    }
    close(fd);
  }
  return found;
}

}  // namespace dlaunch::agent
