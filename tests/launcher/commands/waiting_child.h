// A process that does nothing until it is killed.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>

namespace dlaunch::launcher {

class WaitingChild {
 public:
  // `first`: what it does before it waits; it may not throw. The constructor returns once that is done.
  explicit WaitingChild(const std::function<void()>& first = nullptr) {
    std::array<int, 2> began{};
    EXPECT_EQ(pipe(began.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      if (first) first();
      if (write(began[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(began[0], &byte, 1), 1);
    for (const int end : began) close(end);
  }
  ~WaitingChild() {
    kill(pid_, SIGKILL);
    reap();
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for its end; returns the signal that ended it, or 0.
  int reap() {
    if (reaped_) return 0;
    reaped_ = true;
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
};

}  // namespace dlaunch::launcher
