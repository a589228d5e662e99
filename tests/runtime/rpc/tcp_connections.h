// The TCP connections of this machine to a port, as the kernel lists them.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

#include "runtime/base/deadline.h"

namespace dlaunch::test {

// Established ones, over IPv4, at the end of those that have connected.
inline std::size_t tcp_connections(std::uint16_t port) {
  std::ifstream file("/proc/self/net/tcp");
  std::string line;
  std::getline(file, line);
  std::size_t count = 0;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string slot;
    std::string here;
    std::string there;
    std::string state;
    words >> slot >> here >> there >> state;
    const std::size_t colon = there.find(':');
    if (colon == std::string::npos || state != "01") continue;
    if (std::stoul(there.substr(colon + 1), nullptr, 16) == port) ++count;
  }
  return count;
}

inline bool wait_for_tcp_connections(std::uint16_t port, std::size_t wanted) {
  const Deadline limit = internal::deadline_after(std::chrono::seconds(30));
  while (tcp_connections(port) != wanted) {
    if (internal::has_passed(limit)) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

// Ends the connection of this process to the port that is the `which`th by its descriptor, from 0 on, as a
// broken network would. False: there is none.
inline bool end_one_tcp_connection(std::uint16_t port, int which) {
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in there{};
    socklen_t size = sizeof there;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0 || there.sin_family != AF_INET)
      continue;
    if (ntohs(there.sin_port) == port && which-- == 0) return shutdown(fd, SHUT_RDWR) == 0;
  }
  return false;
}

// Those of this process to the port to which it has the most, but for the store's.
inline std::size_t tcp_connections_of_this_process() {
  const auto store = static_cast<std::uint16_t>(std::stoi(std::getenv("MASTER_PORT")));
  std::map<std::uint16_t, std::size_t> counts;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in there{};
    socklen_t size = sizeof there;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0 || there.sin_family != AF_INET)
      continue;
    if (ntohs(there.sin_port) != store) ++counts[ntohs(there.sin_port)];
  }
  std::size_t most = 0;
  for (const auto& [port, count] : counts) most = std::max(most, count);
  return most;
}

}  // namespace dlaunch::test
