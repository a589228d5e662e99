// A sign of life that others can look for before they are connected: a socket that listens, whose connections
// are closed at once. The kernel closes it with its process, and refuses whoever knocks from then on.
#pragma once

#include <memory>
#include <string>

namespace dlaunch {

class LivenessSocket {
 public:
  // At a numeric address of this machine. None where that cannot be had.
  static std::unique_ptr<LivenessSocket> open(const std::string& local_address);
  ~LivenessSocket();
  LivenessSocket(const LivenessSocket&) = delete;
  LivenessSocket& operator=(const LivenessSocket&) = delete;

  // Where others knock: "127.0.0.1 40123".
  [[nodiscard]] const std::string& address() const { return address_; }
  // Takes leave of all who have knocked, so that there is room for the next. Does not wait.
  void accept_and_close() const;

  // In a copy of the process: closes it there.
  void close_in_child();

  // Whether the one at this address_text() is known to be closed. Takes milliseconds; where no answer comes
  // it is not known, nor where it is no place.
  static bool is_closed(const std::string& address_text);

 private:
  LivenessSocket(int fd, std::string address_text);

  int fd_;  // -1: in a copy of the process
  const std::string address_;
};

}  // namespace dlaunch
