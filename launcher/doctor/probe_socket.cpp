#include "launcher/doctor/probe_socket.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <system_error>

#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

Error failure(int code) {
  return {code == ETIMEDOUT ? ErrorKind::timeout : ErrorKind::network, "", "",
          code == ECONNREFUSED ? "connection refused" : std::generic_category().message(code), ""};
}

constexpr int sleep_limit_ms = 60'000;
// Of IP and TCP; the options of TCP are within the segment size.
constexpr int headers_v4 = 40;
constexpr int headers_v6 = 60;

}  // namespace

std::int64_t wall_clock_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

ProbeSocket::~ProbeSocket() { close(); }

void ProbeSocket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<void> ProbeSocket::await(short events, TimePoint deadline) const {
  while (true) {
    const std::int64_t left = to_millis(deadline - steady_now()) + 1;
    if (left <= 0) return Error{ErrorKind::timeout, "", "", "no answer", ""};
    pollfd one{fd_, events, 0};
    const int ready = poll(&one, 1, static_cast<int>(std::min<std::int64_t>(left, sleep_limit_ms)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failure(errno);
  }
}

Result<void> ProbeSocket::connect(const Address& address, TimePoint deadline, int packet) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int unknown = getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &first);
  if (unknown != 0)
    return Error{ErrorKind::not_found, "", "", "the name " + address.host + " is not known there", ""};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(first, freeaddrinfo);
  Error last{ErrorKind::timeout, "", "", "no answer", ""};
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    close();
    fd_ = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0) return failure(errno);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (packet > 0) {
      const int segment = packet - (one->ai_family == AF_INET6 ? headers_v6 : headers_v4);
      setsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    }
    int code = ::connect(fd_, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      if (auto ready = await(POLLOUT, deadline); !ready) return ready;
      socklen_t size = sizeof code;
      getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size);
    }
    if (code == 0) return {};
    last = failure(code);
  }
  return last;
}

Result<void> ProbeSocket::send(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return failure(errno);
    if (auto ready = await(POLLOUT, deadline); !ready) return ready;
  }
  return {};
}

Result<void> ProbeSocket::receive(char* into, std::size_t size, TimePoint deadline) {
  while (size > 0) {
    const ssize_t got = recv(fd_, into, size, 0);
    if (got == 0) return Error{ErrorKind::network, "", "", "the connection was closed", ""};
    if (got > 0) {
      into += got;
      size -= static_cast<std::size_t>(got);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return failure(errno);
    if (auto ready = await(POLLIN, deadline); !ready) return ready;
  }
  return {};
}

int ProbeSocket::mtu() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return static_cast<int>(info.tcpi_pmtu);
}

std::int64_t ProbeSocket::retransmissions() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_total_retrans;
}

}  // namespace dlaunch::launcher
