#include "agent/platform/status_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace dlaunch::agent {
namespace {

constexpr int backlog = 16;
constexpr std::size_t max_clients = 64;  // further ones wait in the backlog

bool may_connect(int client) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

}  // namespace

std::string status_socket_name(unsigned uid, long pid) {
  return "dlaunch/" + std::to_string(uid) + "/" + std::to_string(pid);
}

StatusSocket::StatusSocket(UvPoller& poller, std::function<std::string()> status)
    : poller_(poller), status_(std::move(status)) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return;
  const std::string name = status_socket_name(geteuid(), getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(fd, backlog) != 0) {
    close(fd);
    return;
  }
  listener_ = fd;
  poller_.watch(listener_, true, false, *this);
}

StatusSocket::~StatusSocket() {
  while (!unsent_.empty()) end(unsent_.begin()->first);
  if (listener_ < 0) return;
  poller_.unwatch(listener_);
  close(listener_);
}

void StatusSocket::on_readable(int) {
  if (unsent_.size() >= max_clients) return end(unsent_.begin()->first);
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (client < 0) return;
  if (!may_connect(client)) {
    close(client);
    return;
  }
  unsent_[client] = status_() + "\n";
  poller_.watch(client, false, true, *this);
}

void StatusSocket::on_writable(int client) {
  std::string& text = unsent_.at(client);
  const ssize_t sent = send(client, text.data(), text.size(), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (sent > 0) text.erase(0, static_cast<std::size_t>(sent));
  if (sent < 0 || text.empty()) end(client);
}

void StatusSocket::end(int client) {
  poller_.unwatch(client);
  close(client);
  unsent_.erase(client);
}

}  // namespace dlaunch::agent
