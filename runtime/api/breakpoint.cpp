#include "runtime/api/breakpoint.h"

#include <poll.h>
#include <unistd.h>

#include <fstream>

namespace dlaunch::internal {

namespace {

bool is_traced() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("TracerPid:")) return line.find_first_of("123456789") != std::string::npos;
  }
  return false;
}

}  // namespace

void announce_wait(const std::string& who) {
  const std::string pid = std::to_string(getpid());
  const std::string line =
      "[dlaunch] " + who + " waits for a debugger: gdb -p " + pid + "   (then: continue, twice)\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

void await_debugger(const std::function<void()>& check) {
  // The kernel does not report the arrival of a tracer.
  constexpr int look_again_ms = 20;
  constexpr int looks_between_checks = 10;
  for (int looks = 1; !is_traced(); ++looks) {
    if (looks % looks_between_checks == 0) check();
    poll(nullptr, 0, look_again_ms);
  }
}

}  // namespace dlaunch::internal
