// Descriptors that only this process has: programs that it starts do not inherit them, and a forked child
// closes them at once. A descriptor that a child kept open would outlive this process, and the other ranks
// would not notice that this process ended.
#pragma once

#include <functional>

namespace dlaunch::internal {

class Descriptor {
 public:
  // `make` returns a descriptor that is closed on exec, or -1 with errno set. No fork happens while it runs;
  // it does not block.
  explicit Descriptor(const std::function<int()>& make);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  // The source has none afterwards.
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

  // For a forked child. Async-signal-safe.
  void close_in_child();

 private:
  int fd_ = -1;
};

}  // namespace dlaunch::internal
