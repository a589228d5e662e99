#include "launcher/doctor/probe_server.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "launcher/doctor/probe_session.h"
#include "launcher/doctor/probe_socket.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t most_connections = 256;
constexpr Duration silence = std::chrono::minutes(1);
constexpr std::size_t piece = 256ULL << 10U;

struct Connection {
  int fd;
  ProbeSession session;
  TimePoint last;
};

// False: the connection has ended.
bool answer(Connection& one, std::string& buffer) {
  const ssize_t got = recv(one.fd, buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  one.last = steady_now();
  const std::string answers =
      one.session.take(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)), wall_clock_ns());
  // Answers have eight bytes for each request, and those who ask wait for them: they fit into the socket's
  // buffer.
  const ssize_t sent = answers.empty() ? 0 : send(one.fd, answers.data(), answers.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(answers.size()) && !one.session.is_bad();
}

}  // namespace

ProbeServer::~ProbeServer() {
  if (stop_pipe_[1] >= 0) close(stop_pipe_[1]);
  if (thread_.joinable()) thread_.join();
  if (stop_pipe_[0] >= 0) close(stop_pipe_[0]);
  for (const int listener : listeners_) close(listener);
}

Result<std::uint16_t> ProbeServer::listen(std::uint16_t port) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool has_v6 = fd >= 0;
  if (!has_v6) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto fail = [&](int code) -> Result<std::uint16_t> {
    if (fd >= 0) close(fd);
    return Error{code == EADDRINUSE ? ErrorKind::in_use : ErrorKind::network, "cannot listen",
                 "at port " + std::to_string(port), std::generic_category().message(code), ""};
  };
  if (fd < 0) return fail(errno);
  const int on = 1;
  const int off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (has_v6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* const any =
      has_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (bind(fd, any, has_v6 ? sizeof v6 : sizeof v4) != 0) return fail(errno);
  if (::listen(fd, static_cast<int>(most_connections)) != 0) return fail(errno);
  sockaddr_in6 own{};
  socklen_t size = sizeof own;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) return fail(errno);
  listeners_.push_back(fd);
  return ntohs(own.sin6_port);  // at the same place in both families
}

Result<void> ProbeServer::start() {
  if (pipe2(stop_pipe_, O_CLOEXEC) != 0)
    return Error{ErrorKind::io, "no pipe", "", std::generic_category().message(errno), ""};
  thread_ = std::thread([this] { serve(); });
  return {};
}

void ProbeServer::serve() {
  std::string buffer(piece, '\0');
  std::vector<std::unique_ptr<Connection>> connections;
  while (true) {
    std::vector<pollfd> all{{stop_pipe_[0], POLLIN, 0}};
    for (const int listener : listeners_) all.push_back({listener, POLLIN, 0});
    for (const auto& one : connections) all.push_back({one->fd, POLLIN, 0});
    if (poll(all.data(), all.size(), static_cast<int>(to_millis(silence))) < 0 && errno != EINTR) break;
    if (all[0].revents != 0) break;
    const TimePoint now = steady_now();
    for (std::size_t i = 0; i < connections.size(); ++i) {
      Connection& one = *connections[i];
      const bool is_ready = all[1 + listeners_.size() + i].revents != 0;
      if (is_ready ? answer(one, buffer) : now - one.last < silence) continue;
      close(one.fd);
      one.fd = -1;
    }
    std::erase_if(connections, [](const auto& one) { return one->fd < 0; });
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (all[1 + i].revents == 0) continue;
      const int fd = accept4(listeners_[i], nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) continue;
      if (connections.size() < most_connections) {
        connections.push_back(std::make_unique<Connection>(Connection{fd, ProbeSession(key_), now}));
      } else {
        close(fd);
      }
    }
  }
  for (const auto& one : connections) close(one->fd);
}

}  // namespace dlaunch::launcher
