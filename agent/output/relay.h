// A thread for writes that may block: to a pipe or terminal of another user, which cannot be opened again
// (agent/output/console.h). The loop's thread writes to a pipe instead, without blocking.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace dlaunch::agent {

class Relay {
 public:
  // Null: no pipe or thread could be made.
  static std::unique_ptr<Relay> start(int target);
  // Loses what has not reached the target. Does not wait for the thread, which may be blocked in a write.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Non-blocking. Bytes written to it go to the target. EPIPE: the target cannot be written any more.
  [[nodiscard]] int fd() const { return fd_; }
  // How many of the bytes and line ends written to fd() have reached the target.
  [[nodiscard]] std::uint64_t bytes() const { return shared_->bytes.load(); }
  [[nodiscard]] std::uint64_t lines() const { return shared_->lines.load(); }
  // Nothing more shall reach the target.
  void give_up() { shared_->given_up.store(true); }

 private:
  struct Shared {
    int source = -1;
    int target = -1;
    std::atomic<std::uint64_t> bytes = 0;
    std::atomic<std::uint64_t> lines = 0;
    std::atomic<bool> given_up = false;
  };
  Relay(int fd, std::shared_ptr<Shared> shared) : fd_(fd), shared_(std::move(shared)) {}
  static void work(Shared& shared);

  const int fd_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace dlaunch::agent
