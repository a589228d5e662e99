#include "runtime/backends/gloo/send_buffer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

namespace dlaunch {

namespace {

// Of which the kernel makes twice as much.
constexpr int size_within_host = 192 * 1024;
constexpr int size_between_hosts = 2 * 1024 * 1024;

using AddressOf = int (*)(int fd, sockaddr* address, socklen_t* size);

std::string address(int fd, AddressOf address_of) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (address_of(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return {};
  if (storage.ss_family == AF_INET) {
    const in_addr ip = reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
    return {reinterpret_cast<const char*>(&ip), sizeof ip};
  }
  const in6_addr ip = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  return {reinterpret_cast<const char*>(&ip), sizeof ip};
}

void let_kernel_choose([[maybe_unused]] int fd) {
#ifdef SO_BUF_LOCK
  constexpr int send_buffer = 1;  // SOCK_SNDBUF_LOCK, which has no header
  int fixed = 0;
  socklen_t size = sizeof fixed;
  if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &fixed, &size) != 0) return;
  fixed &= ~send_buffer;
  setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &fixed, sizeof fixed);
#endif
}

void fit_send_buffer(int fd) {
  const bool within_host = address(fd, getsockname) == address(fd, getpeername);
  const int wanted = within_host ? size_within_host : size_between_hosts;
  setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &wanted, sizeof wanted);
  if (!within_host) let_kernel_choose(fd);
}

}  // namespace

// Gloo does not give its descriptors away: its sockets are known among the process's by the size.
void fit_send_buffers(std::size_t longest) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    int size = 0;
    socklen_t length = sizeof size;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length) != 0) continue;
    if (static_cast<std::size_t>(size) == 2 * longest) fit_send_buffer(fd);
  }
}

}  // namespace dlaunch
