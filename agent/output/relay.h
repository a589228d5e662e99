// A thread that writes where every write may block: to a pipe or terminal of another user's, which cannot be
// opened anew (agent/output/console.h). The loop's thread writes to a pipe instead, without waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace dlaunch::agent {

class Relay {
 public:
  // None: there is no pipe or thread left.
  static std::unique_ptr<Relay> start(int target);
  // What is still on its way is lost. The thread, which a write may block, is not waited for.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Not blocking. What is written there goes to the target; EPIPE: that cannot be written any more.
  [[nodiscard]] int fd() const { return fd_; }
  // Of all that was written to fd(): what the target has taken.
  [[nodiscard]] std::uint64_t bytes() const { return shared_->bytes.load(); }
  [[nodiscard]] std::uint64_t lines() const { return shared_->lines.load(); }  // their ends
  // Nothing more is to reach the target.
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
