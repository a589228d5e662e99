#include "store/loop/uv_addresses.h"

#include <netinet/in.h>

#include <cstring>
#include <utility>

namespace dlaunch::store {

CloseKind close_kind(int status) {
  switch (status) {
    case UV_EOF:
      return CloseKind::closed_by_peer;
    case UV_ECONNRESET:
    case UV_EPIPE:
      return CloseKind::reset;
    case UV_ECONNREFUSED:
      return CloseKind::refused;
    case UV_ETIMEDOUT:
      return CloseKind::timed_out;
    case UV_ENOMEM:
    case UV_ENOBUFS:
    case UV_EMFILE:
    case UV_ENFILE:
      return CloseKind::failed;
    default:
      return CloseKind::unreachable;
  }
}

std::string describe(int status) {
  switch (status) {
    case UV_EOF:
      return "closed by the peer";
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_FAIL:
      return "name not known";
    case UV_EAI_AGAIN:
      return "the name service does not answer";
    case UV_EADDRNOTAVAIL:
      return "not an address of this machine";
    case UV_ETIMEDOUT:
      return "no answer";
    default:
      return uv_strerror(status);
  }
}

std::string connect_failure(int status, const std::string& why) {
  switch (status) {
    case UV_ECONNREFUSED:
      return why + " (the host answers, but nothing listens on that port: not started yet, or another port)";
    case UV_ETIMEDOUT:
      return why + " (the host is down, or a firewall drops what is sent to that port)";
    case UV_EHOSTUNREACH:
    case UV_ENETUNREACH:
      return why + " (check the address, and the routes from here)";
    case UV_EAI_NONAME:
    case UV_EAI_NODATA:
    case UV_EAI_FAIL:
      return why + " (check its spelling, /etc/hosts and DNS)";
    default:
      return why;
  }
}

Address to_address(const sockaddr* raw) {
  char host[INET6_ADDRSTRLEN + UV_IF_NAMESIZE] = "?";
  if (raw->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(raw);
    uv_ip4_name(v4, host, sizeof host);
    return {host, ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(raw);
  uv_ip6_name(v6, host, sizeof host);
  std::string text = host;
  // A dual-stack socket shows IPv4 peers as mapped IPv6 addresses; users know the plain form.
  if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) text = text.substr(text.rfind(':') + 1);
  return {std::move(text), ntohs(v6->sin6_port)};
}

void set_port(sockaddr_storage& address, std::uint16_t port) {
  if (address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  }
}

bool parse_numeric(const Address& address, sockaddr_storage& into) {
  if (uv_ip4_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in*>(&into)) == 0)
    return true;
  return uv_ip6_addr(address.host.c_str(), address.port, reinterpret_cast<sockaddr_in6*>(&into)) == 0;
}

addrinfo stream_hints(int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return hints;
}

std::vector<sockaddr_storage> to_list(const addrinfo* found, std::uint16_t port) {
  std::vector<sockaddr_storage> list;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    sockaddr_storage& copy = list.emplace_back();
    std::memcpy(&copy, one->ai_addr, one->ai_addrlen);
    set_port(copy, port);
  }
  return list;
}

bool met_itself(const uv_tcp_t& tcp) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  int here_size = sizeof here;
  int there_size = sizeof there;
  return uv_tcp_getsockname(&tcp, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
         uv_tcp_getpeername(&tcp, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 &&
         here_size == there_size && std::memcmp(&here, &there, static_cast<std::size_t>(here_size)) == 0;
}

Address bound_address(const uv_tcp_t& tcp) {
  sockaddr_storage bound{};
  int size = sizeof bound;
  uv_tcp_getsockname(&tcp, reinterpret_cast<sockaddr*>(&bound), &size);
  return to_address(raw(bound));
}

}  // namespace dlaunch::store
