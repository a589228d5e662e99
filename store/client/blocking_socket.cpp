#include "store/client/blocking_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <system_error>

namespace dlaunch::store {
namespace {

Error failure(int code) {
  if (code == ETIMEDOUT) return {ErrorKind::timeout, "", "", "no answer", ""};
  if (code == ECONNREFUSED) return {ErrorKind::network, "", "", "connection refused", ""};
  if (code == ECONNRESET || code == EPIPE)
    return {ErrorKind::network, "", "", "connection reset by the server", ""};
  return {ErrorKind::network, "", "", std::generic_category().message(code), ""};
}

Error lookup_failure(int code) {
  std::string why = gai_strerror(code);
  if (code == EAI_NONAME || code == EAI_NODATA || code == EAI_FAIL) why = "name not known";
  if (code == EAI_AGAIN) why = "the name service does not answer";
  return {ErrorKind::network, "", "", std::move(why), ""};
}

// A retried connect to a free local port can connect to itself: TCP allows both ends to be one socket.
bool met_itself(int fd) {
  sockaddr_storage here{};
  sockaddr_storage there{};
  socklen_t here_size = sizeof here;
  socklen_t there_size = sizeof there;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return false;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_size) != 0) return false;
  return here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

}  // namespace

void BlockingSocket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  begin_ = end_ = 0;
  session_.reset();
  secured_.clear();
  secured_used_ = 0;
}

Result<void> BlockingSocket::connect(const Address& address, TimePoint deadline) {
  close();
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int looked_up =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (looked_up != 0) return lookup_failure(looked_up);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);

  int left = 0;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) ++left;
  Error last = failure(EADDRNOTAVAIL);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next, --left) {
    fd_ = ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    if (fd_ < 0) {
      last = failure(errno);
      continue;
    }
    int code = ::connect(fd_, one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
      // One silent address must not use up the time of the others.
      const TimePoint now = steady_now();
      const auto ready = await(POLLOUT, now + (deadline - now) / left);
      socklen_t size = sizeof code;
      if (!ready) {
        code = ETIMEDOUT;
      } else if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &code, &size) != 0) {
        code = errno;
      }
    }
    if (code == 0 && met_itself(fd_)) code = ECONNREFUSED;
    if (code == 0) {
      const int on = 1;
      setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      return {};
    }
    last = failure(code);
    close();
  }
  return last;
}

Result<void> BlockingSocket::secure(std::unique_ptr<SecureSession> session, TimePoint deadline) {
  session_ = std::move(session);
  const std::string hello = session_->begin();
  if (auto sent = send_plain(as_byte_span(hello), deadline); !sent) return sent;
  while (!session_->is_up()) {
    if (auto taken = take_secured(deadline); !taken) return taken;
  }
  return {};
}

Result<void> BlockingSocket::send(ByteSpan bytes, TimePoint deadline) {
  if (!session_) return send_plain(bytes, deadline);
  std::string wire;
  session_->seal(bytes, wire);
  return send_plain(as_byte_span(wire), deadline);
}

Result<void> BlockingSocket::send_plain(ByteSpan bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failure(errno);
    if (auto ready = await(POLLOUT, deadline); !ready) return ready;
  }
  return {};
}

Result<void> BlockingSocket::receive(char* into, std::size_t size, TimePoint deadline) {
  if (!session_) return receive_plain(into, size, deadline);
  while (true) {
    const std::size_t here = std::min(size, secured_.size() - secured_used_);
    std::memcpy(into, secured_.data() + secured_used_, here);
    secured_used_ += here;
    into += here;
    size -= here;
    if (size == 0) return {};
    secured_.clear();
    secured_used_ = 0;
    if (auto taken = take_secured(deadline); !taken) return taken;
  }
}

// Reads more from the wire, through the session.
Result<void> BlockingSocket::take_secured(TimePoint deadline) {
  constexpr std::size_t most = 1 << 16;
  const auto wire = std::make_unique_for_overwrite<char[]>(most);
  const auto got = receive_some(wire.get(), most, deadline);
  if (!got) return got.error();
  std::string answer;
  auto taken = session_->take(as_byte_span(std::string_view(wire.get(), *got)), secured_, answer);
  if (auto sent = send_plain(as_byte_span(answer), deadline); !sent) return sent;
  return taken;
}

Result<void> BlockingSocket::receive_plain(char* into, std::size_t size, TimePoint deadline) {
  while (true) {
    const std::size_t here = std::min(size, end_ - begin_);
    if (here != 0) {
      std::memcpy(into, buffer_.data() + begin_, here);
      begin_ += here;
      into += here;
      size -= here;
    }
    if (size == 0) return {};

    const bool large = size >= buffer_.size();  // goes to its destination without the buffer
    const auto got =
        large ? receive_some(into, size, deadline) : receive_some(buffer_.data(), buffer_.size(), deadline);
    if (!got) return got.error();
    if (large) {
      into += *got;
      size -= *got;
    } else {
      begin_ = 0;
      end_ = *got;
    }
  }
}

// At least one byte.
Result<std::size_t> BlockingSocket::receive_some(char* into, std::size_t most, TimePoint deadline) {
  while (true) {
    const ssize_t got = ::recv(fd_, into, most, 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) return Error{ErrorKind::network, "", "", "closed by the server", ""};
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return failure(errno);
    if (auto ready = await(POLLIN, deadline); !ready) return std::move(ready).error();
  }
}

Result<void> BlockingSocket::await(short events, TimePoint deadline) const {
  while (true) {
    const Duration left = deadline - steady_now();
    const std::int64_t millis = left.count() <= 0 ? 0 : (left.count() - 1) / 1'000'000 + 1;
    pollfd one{fd_, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(millis, INT_MAX)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return failure(errno);
    if (ready == 0 && millis <= INT_MAX && steady_now() >= deadline) return failure(ETIMEDOUT);
  }
}

}  // namespace dlaunch::store
