// How a process ended, and its description in words.
#pragma once

#include <string>

namespace dlaunch::agent {

// The exit code of a shell and of the dynamic linker for a program or library that is not there.
constexpr int not_found_code = 127;

struct ExitStatus {
  enum class How { exited, signaled };
  How how = How::exited;
  int number = 0;  // exit code, or signal number
  bool core_dumped = false;

  static ExitStatus from_wait_status(int wait_status);

  [[nodiscard]] bool success() const { return how == How::exited && number == 0; }
  // What a shell would report: the exit code, or 128 + the signal's number.
  [[nodiscard]] int shell_code() const { return how == How::exited ? number : 128 + number; }

  bool operator==(const ExitStatus&) const = default;
};

// "exited with code 3", "was killed by signal 11 (SIGSEGV, segmentation fault), core dumped". Adds the usual
// meaning of codes that have one: 126, 127, and those of shells and containers for signals. `known_cause`, if
// not empty, replaces the usual meaning: "was killed by signal 9 (SIGKILL): the kernel's ...".
std::string describe(const ExitStatus& status, const std::string& known_cause = "");

// Without the meaning: "returned 0", "exited with code 3", "was killed by SIGSEGV".
std::string describe_briefly(const ExitStatus& status);

// "SIGTERM"; "signal 77" if it has no name.
std::string signal_name(int signo);

}  // namespace dlaunch::agent
