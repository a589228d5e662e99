#include "runtime/backends/gloo/send_buffer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <system_error>

namespace dlaunch {

namespace {

// "[127.0.0.1]:4711"; empty if the descriptor is no socket of the internet's.
std::string local_address_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = {};
  in_port_t port = 0;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = v4.sin_port;
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = v6.sin6_port;
  } else {
    return {};
  }
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(port));
}

}  // namespace

// Gloo does not give its descriptors away: they are looked for among the process's own.
void let_send_buffer_grow([[maybe_unused]] const std::string& local_address) {
#ifdef SO_BUF_LOCK
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (local_address_of(fd) != local_address) continue;
    int locks = 0;
    socklen_t size = sizeof locks;
    constexpr int send_lock = 1;  // SOCK_SNDBUF_LOCK, of <linux/socket.h>
    if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, &size) != 0 || (locks & send_lock) == 0) continue;
    locks &= ~send_lock;
    setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof locks);
  }
#endif
}

}  // namespace dlaunch
