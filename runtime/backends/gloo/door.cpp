#include "runtime/backends/gloo/door.h"

#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "dlaunch/error.h"

namespace dlaunch {

namespace {

[[noreturn]] void fail(const std::string& local_address, const char* why) {
  throw DistNetworkError("cannot listen at the local address " + local_address + ": " + why);
}

socklen_t size_of(const sockaddr_storage& address) {
  return address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

}  // namespace

Door::Door(const std::string& local_address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(local_address.c_str(), "0", &hints, &found); failed != 0)
    fail(local_address, gai_strerror(failed));
  fd_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool listens =
      fd_ >= 0 && bind(fd_, found->ai_addr, found->ai_addrlen) == 0 && listen(fd_, SOMAXCONN) == 0;
  const int why = errno;
  freeaddrinfo(found);
  if (listens) return;
  if (fd_ >= 0) close(fd_);
  fail(local_address, std::strerror(why));
}

Door::~Door() { close(fd_); }

std::string Door::place() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

bool Door::is_closed(const std::string& place) {
  constexpr int patience_ms = 20;
  sockaddr_storage address{};
  if (place.size() != sizeof address) return false;
  std::memcpy(&address, place.data(), sizeof address);
  if (address.ss_family != AF_INET && address.ss_family != AF_INET6) return false;
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size_of(address)) != 0) error = errno;
  pollfd answered{fd, POLLOUT, 0};
  if (error == EINPROGRESS && poll(&answered, 1, patience_ms) > 0) {
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  close(fd);
  return error == ECONNREFUSED;
}

}  // namespace dlaunch
