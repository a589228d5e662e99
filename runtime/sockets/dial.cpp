#include "runtime/sockets/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>

#include "runtime/base/deadline.h"
#include "runtime/sockets/attempt.h"
#include "runtime/sockets/keepalive.h"
#include "store/base/address.h"

namespace dlaunch::internal {

namespace {

// The kernel doubles it. Within one host the buffer is so small that the receiver finds the bytes still in
// the processor's cache; a larger buffer costs up to half the speed.
constexpr int send_buffer_within_host = 192 * 1024;
// After this time a proof is tried again.
constexpr auto proof_limit = std::chrono::seconds(5);
constexpr auto between_attempts = std::chrono::milliseconds(20);

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
};

std::optional<SocketAddress> socket_address(const std::string& numeric, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(numeric.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return std::nullopt;
  SocketAddress address;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

std::string describe_errno(int error) { return std::generic_category().message(error); }

Descriptor new_socket(const SocketAddress& address) {
  return Descriptor(
      [&] { return socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

std::string ip_of(const SocketAddress& address) {
  char text[NI_MAXHOST] = {};
  getnameinfo(address.get(), address.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

bool is_within_host(int socket) {
  SocketAddress here{.size = sizeof(sockaddr_storage)};
  SocketAddress there{.size = sizeof(sockaddr_storage)};
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&here.bytes), &here.size) != 0) return false;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&there.bytes), &there.size) != 0) return false;
  return ip_of(here) == ip_of(there);
}

// 0, or the errno of the failure.
int connect_socket(int socket, const SocketAddress& address, const Attempt& attempt) {
  if (connect(socket, address.get(), address.size) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!attempt.await(POLLOUT)) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

Listener listen_at(const std::string& address) {
  const std::string where = "cannot use the local address " + address + ": ";
  const std::optional<SocketAddress> place = socket_address(address, 0);
  if (!place) throw DistNetworkError(where + "it is not a numeric address");
  Descriptor socket = new_socket(*place);
  if (!socket.is_open()) throw DistNetworkError(where + describe_errno(errno));
  if (bind(socket.get(), place->get(), place->size) != 0 || listen(socket.get(), SOMAXCONN) != 0)
    throw DistNetworkError(where + describe_errno(errno));
  SocketAddress bound{.size = sizeof(sockaddr_storage)};
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound.bytes), &bound.size);
  const std::uint16_t port = bound.bytes.ss_family == AF_INET6
                                 ? reinterpret_cast<const sockaddr_in6&>(bound.bytes).sin6_port
                                 : reinterpret_cast<const sockaddr_in&>(bound.bytes).sin_port;
  return {std::move(socket), ntohs(port)};
}

Descriptor accept_from(int listener) {
  return Descriptor([listener] { return accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

Descriptor dial(const Contact& there, const ProcessId& self, Deadline deadline, const LossCheck& check,
                std::chrono::milliseconds patience) {
  const std::string where = to_string(Address{there.address, there.port});
  const std::optional<SocketAddress> place = socket_address(there.address, there.port);
  if (!place) throw DistNetworkError("cannot connect with it: " + where + " is not an address");
  for (;;) {
    Descriptor socket = new_socket(*place);
    if (!socket.is_open()) throw DistNetworkError("cannot connect with it: " + describe_errno(errno));
    const auto run_check = [&] {
      if (check) check();
    };
    const int error = connect_socket(socket.get(), *place, Attempt(socket.get(), deadline, check));
    const bool is_in_the_way = error == ETIMEDOUT || error == ECONNRESET || error == EAGAIN;
    if (error != 0 && !is_in_the_way) {
      // Often the peer has only noticed before this rank that another rank is lost.
      wait_for_root_error(deadline_after(patience), run_check);
      throw DistNetworkError("cannot connect with it: " + where + ": " + describe_errno(error));
    }
    const Deadline end = std::min(deadline, deadline_after(proof_limit));
    if (error == 0 && prove(there, self, Attempt(socket.get(), end, check))) return socket;
    if (has_passed(deadline)) throw DistNetworkError("no connection was made before the deadline");
    wait_for_root_error(deadline_after(between_attempts), run_check);
  }
}

void prepare(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (is_within_host(socket))
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &send_buffer_within_host, sizeof send_buffer_within_host);
  enable_keepalive(socket);
}

}  // namespace dlaunch::internal
