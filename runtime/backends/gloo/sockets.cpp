#include "runtime/backends/gloo/sockets.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>

#include "runtime/fork_copies.h"

namespace dlaunch {

namespace {

// A silent host is noticed after idle + count * interval, which is Silence::limit.
constexpr int keepalive_idle = 6;  // seconds
constexpr int keepalive_interval = 3;
constexpr int keepalive_count = 3;
static_assert(std::chrono::seconds(keepalive_idle + keepalive_count * keepalive_interval) == Silence::limit);

using AddressOf = int (*)(int fd, sockaddr* address, socklen_t* size);

bool has_address(int fd, AddressOf address_of, const sockaddr_storage& wanted) {
  sockaddr_storage found{};
  socklen_t size = sizeof found;
  if (address_of(fd, reinterpret_cast<sockaddr*>(&found), &size) != 0) return false;
  if (found.ss_family != wanted.ss_family) return false;
  if (found.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(found);
    const auto& b = reinterpret_cast<const sockaddr_in&>(wanted);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (found.ss_family != AF_INET6) return false;
  const auto& a = reinterpret_cast<const sockaddr_in6&>(found);
  const auto& b = reinterpret_cast<const sockaddr_in6&>(wanted);
  return a.sin6_port == b.sin6_port && std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

std::vector<int> open_descriptors() {
  std::vector<int> descriptors;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    descriptors.push_back(fd);
  }
  return descriptors;
}

void close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

void keep_alive(int fd) {
  const auto set = [fd](int level, int option, int value) {
    setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, keepalive_count);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

}  // namespace

bool Silence::look(const tcp_info& info) {
  // One that is lost is nothing yet: the kernel sends it again.
  const bool unacknowledged = info.tcpi_unacked > 0 && info.tcpi_retransmits >= 2;
  const bool unanswered_about_room = info.tcpi_probes >= 3;
  looks_ = unacknowledged || unanswered_about_room ? looks_ + 1 : 0;
  return looks_ >= limit / between_looks && std::chrono::milliseconds(info.tcpi_last_ack_recv) >= limit;
}

Sockets::Sockets(const std::vector<Connection>& connections) : looked_(std::chrono::steady_clock::now()) {
  for (const int fd : open_descriptors()) add_if_known(fd, connections);
  add_poll_descriptors();
  auto& registry = ForkCopies<const Sockets>::get();
  const std::lock_guard lock(registry.mutex);
  registry.all.push_back(this);
}

Sockets::~Sockets() {
  auto& registry = ForkCopies<const Sockets>::get();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.all, this);
}

void Sockets::add_if_known(int fd, const std::vector<Connection>& connections) {
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const auto found = std::ranges::find_if(connections, [fd](const Connection& connection) {
    return has_address(fd, getsockname, connection.here) || has_address(fd, getpeername, connection.there);
  });
  if (found == connections.end()) return;
  close_on_exec(fd);
  keep_alive(fd);
  sockets_.push_back({found->peer, fd, status.st_ino, {}});
}

// Those that watch one of the sockets; the kernel lists what they watch.
void Sockets::add_poll_descriptors() {
  for (const int fd : open_descriptors()) {
    std::error_code no_link;
    const auto kind = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), no_link);
    if (kind != "anon_inode:[eventpoll]") continue;
    std::ifstream watched("/proc/self/fdinfo/" + std::to_string(fd));
    for (std::string word; watched >> word;) {
      int target = -1;
      if (word != "tfd:" || !(watched >> target)) continue;
      if (std::ranges::find(sockets_, target, &Socket::fd) == sockets_.end()) continue;
      close_on_exec(fd);
      polls_.push_back(fd);
      break;
    }
  }
}

bool Sockets::Socket::is_open() const {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == inode;
}

std::optional<int> Sockets::silent_peer() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < Silence::between_looks) return std::nullopt;
  looked_ = now;
  for (Socket& socket : sockets_) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (!socket.is_open() || getsockopt(socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (socket.silence.look(info)) return socket.peer;
  }
  return std::nullopt;
}

void Sockets::close_copies() const {
  for (const Socket& socket : sockets_) {
    if (socket.is_open()) close(socket.fd);
  }
  for (const int fd : polls_) close(fd);
}

}  // namespace dlaunch
