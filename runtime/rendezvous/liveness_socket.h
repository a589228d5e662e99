// A proof of life for ranks that are not connected yet: a listening socket whose connections are closed at
// once. The kernel closes it with its process, and refuses connections from then on.
#pragma once

#include <memory>
#include <string>

namespace dlaunch::internal {

class LivenessSocket {
 public:
  // At a numeric address of this machine. None if that is impossible.
  static std::unique_ptr<LivenessSocket> open(const std::string& local_address);
  ~LivenessSocket();
  LivenessSocket(const LivenessSocket&) = delete;
  LivenessSocket& operator=(const LivenessSocket&) = delete;

  // Where others connect: "127.0.0.1 40123".
  [[nodiscard]] const std::string& address() const { return address_; }
  // Accepts and closes all pending connections, to make room for the next. Does not wait.
  void accept_and_close() const;

  // In a copy of the process: closes it there.
  void close_in_child();

  // Whether the socket at this address() is known to be closed. Takes milliseconds; false if there is no
  // answer, or if the text is not an address.
  static bool is_closed(const std::string& address_text);

 private:
  LivenessSocket(int fd, std::string address_text);

  int fd_;  // -1: in a copy of the process
  const std::string address_;
};

}  // namespace dlaunch::internal
