// A sign of life that others can look for before they are connected: a socket that listens, whose connections
// are closed at once. The kernel closes it with its process, and refuses whoever knocks from then on.
#pragma once

#include <memory>
#include <string>

namespace dlaunch {

class Door {
 public:
  // At a numeric address of this machine. None where that cannot be had.
  static std::unique_ptr<Door> open(const std::string& local_address);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Where others knock: "127.0.0.1 40123".
  [[nodiscard]] const std::string& place() const { return place_; }
  // Takes leave of all who have knocked, so that there is room for the next. Does not wait.
  void dismiss() const;

  // In a copy of the process: closes it there.
  void close_copies();

  // Whether the one at this place() is known to be closed. Takes milliseconds; where no answer comes it is
  // not known, nor where it is no place.
  static bool is_closed(const std::string& place);

 private:
  Door(int fd, std::string place);

  int fd_;  // -1: in a copy of the process
  const std::string place_;
};

}  // namespace dlaunch
