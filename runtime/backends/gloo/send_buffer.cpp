#include "runtime/backends/gloo/send_buffer.h"

#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

namespace dlaunch {

#ifdef SO_BUF_LOCK

namespace {

int option(int fd, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

}  // namespace

// Gloo does not give its descriptors away: its sockets are known among the process's by the size, of which
// the kernel makes twice what it was asked for.
void let_send_buffers_grow(std::size_t longest) {
  constexpr int send_lock = 1;  // SOCK_SNDBUF_LOCK, which has no header
  constexpr int start = 2 << 20;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const std::string name = entry.path().filename();
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);
    if (option(fd, SO_SNDBUF) != static_cast<int>(2 * longest)) continue;
    const int locks = option(fd, SO_BUF_LOCK);
    if ((locks & send_lock) == 0) continue;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &start, sizeof start);  // fixes it again
    const int others = locks & ~send_lock;
    setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &others, sizeof others);
  }
}

#else

void let_send_buffers_grow(std::size_t /*longest*/) {}

#endif

}  // namespace dlaunch
