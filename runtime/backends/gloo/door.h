// A sign of life that others can look for before they are connected: a socket that listens and is never
// accepted from. The kernel closes it with its process, and refuses whoever knocks from then on.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace dlaunch {

class Door {
 public:
  // At a numeric address of this machine. Throws DistNetworkError.
  explicit Door(const std::string& local_address);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Where others knock, as they are told it: of one length on all machines.
  [[nodiscard]] std::string place() const;
  static constexpr std::size_t place_size = sizeof(sockaddr_storage);

  // Whether the one at this place() is known to be closed. Takes milliseconds; where no answer comes it is
  // not known.
  static bool is_closed(const std::string& place);

 private:
  int fd_;
};

}  // namespace dlaunch
