// A part of a test in a process of its own. REQUIRES: the test has no other threads yet, since only the
// forking thread continues in the child.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <functional>
#include <string>

namespace dlaunch::test {

class OtherProcess {
 public:
  // `part` gets the line given to tell(), and must not throw. EXPECT in it is not reported, so it returns
  // success.
  explicit OtherProcess(const std::function<bool(const std::string& told)>& part) {
    std::array<int, 2> pipe_ends{};
    if (pipe(pipe_ends.data()) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      close(pipe_ends[1]);
      std::string told;
      char byte = 0;
      while (read(pipe_ends[0], &byte, 1) == 1) told += byte;
      bool well = false;
      try {
        well = part(told);
      } catch (const std::exception&) {
      }
      _exit(well ? 0 : 1);
    }
    close(pipe_ends[0]);
    to_ = pipe_ends[1];
  }
  ~OtherProcess() {
    if (to_ >= 0) tell("");
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  // Starts it.
  void tell(const std::string& line) {
    EXPECT_EQ(write(to_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    close(to_);
    to_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int to_ = -1;
};

}  // namespace dlaunch::test
