#include "runtime/rendezvous/liveness_socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/close_on_fork.h"

namespace dlaunch::internal {

namespace {

struct SocketAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }

  static std::optional<SocketAddress> of(const std::string& numeric, std::uint16_t port) {
    SocketAddress address;
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.bytes);
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.bytes);
    if (inet_pton(AF_INET, numeric.c_str(), &v4.sin_addr) == 1) {
      v4.sin_family = AF_INET;
      v4.sin_port = htons(port);
      address.size = sizeof v4;
    } else if (inet_pton(AF_INET6, numeric.c_str(), &v6.sin6_addr) == 1) {
      v6.sin6_family = AF_INET6;
      v6.sin6_port = htons(port);
      address.size = sizeof v6;
    } else {
      return std::nullopt;
    }
    return address;
  }

  static std::optional<SocketAddress> parse(const std::string& address_text) {
    const std::size_t space = std::min(address_text.find(' '), address_text.size());
    std::uint16_t port = 0;
    const char* const end = address_text.data() + address_text.size();
    const char* const begin = std::min(address_text.data() + space + 1, end);
    if (std::from_chars(begin, end, port).ptr != end || port == 0) return std::nullopt;
    return of(address_text.substr(0, space), port);
  }
};

std::uint16_t port_of(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

std::unique_ptr<LivenessSocket> LivenessSocket::open(const std::string& local_address) {
  const std::optional<SocketAddress> address = SocketAddress::of(local_address, 0);
  if (!address) return nullptr;
  auto& sockets = CloseOnFork<LivenessSocket>::get();
  const std::lock_guard lock(sockets.mutex);  // the process is not forked meanwhile
  const int fd = socket(address->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return nullptr;
  if (bind(fd, address->get(), address->size) != 0 || listen(fd, SOMAXCONN) != 0) {
    close(fd);
    return nullptr;
  }
  std::unique_ptr<LivenessSocket> liveness_socket(
      new LivenessSocket(fd, local_address + " " + std::to_string(port_of(fd))));
  sockets.all.push_back(liveness_socket.get());
  return liveness_socket;
}

LivenessSocket::LivenessSocket(int fd, std::string address_text)
    : fd_(fd), address_(std::move(address_text)) {}

LivenessSocket::~LivenessSocket() {
  auto& sockets = CloseOnFork<LivenessSocket>::get();
  const std::lock_guard lock(sockets.mutex);
  std::erase(sockets.all, this);
  if (fd_ >= 0) close(fd_);
}

void LivenessSocket::close_in_child() { close(std::exchange(fd_, -1)); }

void LivenessSocket::accept_and_close() const {
  for (int who = 0; (who = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) close(who);
}

bool LivenessSocket::is_closed(const std::string& address_text) {
  constexpr int patience_ms = 20;
  const std::optional<SocketAddress> address = SocketAddress::parse(address_text);
  if (!address) return false;
  const int fd = socket(address->bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  int error = 0;
  if (connect(fd, address->get(), address->size) != 0) error = errno;
  pollfd answered{fd, POLLOUT, 0};
  if (error == EINPROGRESS && poll(&answered, 1, patience_ms) > 0) {
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  close(fd);
  return error == ECONNREFUSED;
}

}  // namespace dlaunch::internal
