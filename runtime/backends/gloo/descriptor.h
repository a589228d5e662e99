// Descriptors that only this process has: programs that it starts do not inherit them, and in a copy that
// fork() makes they are closed at once. What a child keeps open would stay open after this process has died,
// and the other ranks would not hear of its end.
#pragma once

#include <functional>

namespace dlaunch {

class Descriptor {
 public:
  // `make` returns a descriptor that is closed on exec, or -1 with errno set. The process is not copied while
  // it runs; it does not block.
  explicit Descriptor(const std::function<int()>& make);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  // The other one has none afterwards.
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;

  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

  // In a copy of the process. Async-signal-safe.
  void close_in_child();

 private:
  int fd_ = -1;
};

}  // namespace dlaunch
