#include "agent/pmix/agent_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

namespace dlaunch::agent {

AgentConnection::~AgentConnection() { close(fd_); }

bool AgentConnection::send(const std::string& lines) {
  const std::lock_guard lock(sending_);
  std::string_view left = lines;
  while (!left.empty()) {
    const ssize_t sent = ::send(fd_, left.data(), left.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::optional<PmiRequest> AgentConnection::receive(std::optional<std::chrono::seconds> patience) {
  const int limit = patience ? static_cast<int>(std::chrono::milliseconds(*patience).count()) : -1;
  while (received_.empty()) {
    pollfd there{fd_, POLLIN, 0};
    const int ready = poll(&there, 1, limit);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    std::array<char, 16 * 1024> chunk;
    const ssize_t got = recv(fd_, chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    lines_.cut({chunk.data(), static_cast<std::size_t>(got)}, [&](std::string_view line) {
      received_.push_back(PmiRequest::parse(line));
      return true;
    });
  }
  auto first = std::move(received_.front());
  received_.pop_front();
  return first;
}

}  // namespace dlaunch::agent
