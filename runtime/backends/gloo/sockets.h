// The sockets of one mesh, and what Gloo leaves undone to them.
//
// Gloo gives its descriptors to nobody. They are known among the process's by their addresses, which no other
// socket has, and Gloo's epoll by what it watches.
//
// Children: what a child process inherits keeps a connection open after this process has died, and the others
// would not hear of it. So programs that it starts inherit nothing, and in a copy that fork() makes the
// descriptors are closed at once.
//
// Lost hosts: a host that vanishes says nothing. Where nothing has been sent to it the kernel asks whether it
// is there (keepalive); where something has, it would go on sending that for a quarter of an hour, and the
// limit that it offers for this (TCP_USER_TIMEOUT) also ends connections to hosts that answer all the time
// that their program, which stands still, has no room. So it is asked here what has been answered.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <vector>

namespace dlaunch {

// Whether the kernel at the other end of a connection still answers, as seen by looks at it, a second apart.
// The program there need not: what is sent to one that stands still is acknowledged, or its host says, each
// time that it is asked, that there is no room.
class Silence {
 public:
  static constexpr auto limit = std::chrono::seconds(15);
  static constexpr auto between_looks = std::chrono::seconds(1);

  // True when nothing has been answered for `limit`. Looks are counted, not the time between them: while
  // this process stood still it knew nothing.
  bool look(const tcp_info& info);

 private:
  int looks_ = 0;  // in a row that saw something unanswered
};

class Sockets {
 public:
  // The addresses at which both sides of the connection to a peer have listened: the one that the other side
  // connected to is that of its socket still.
  struct Connection {
    int peer;
    sockaddr_storage here;
    sockaddr_storage there;
  };

  // REQUIRES: connected. To be destroyed before Gloo's device.
  explicit Sockets(const std::vector<Connection>& connections);
  ~Sockets();
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  // A peer whose host has answered nothing for Silence::limit. Looks once in Silence::between_looks, however
  // often it is called; one thread.
  std::optional<int> silent_peer();

  // In a copy of the process: closes them without a word to the other side. Async-signal-safe.
  void close_copies() const;

 private:
  struct Socket {
    int peer;
    int fd;
    ino_t inode;  // Gloo closes them when it likes, and the number may then be another one's
    Silence silence;

    [[nodiscard]] bool is_open() const;
  };

  void add_if_known(int fd, const std::vector<Connection>& connections);
  void add_poll_descriptors();

  std::vector<Socket> sockets_;
  std::vector<int> polls_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace dlaunch
