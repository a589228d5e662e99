// Actions at the end of the process: by exit(), or by a return from main.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace dlaunch::internal {

// Calls `action` then, once, however often this was called; before the destructors of the static objects that
// existed at the first call. Not in copies made by fork(): the objects of the action belong to the original.
// Any thread. Does nothing if the process ends by _exit() or a signal.
template <void (*action)()>
void at_process_end() {
  static std::atomic<pid_t> process = 0;
  // If there is no memory for it, the process ends as if it had been killed.
  [[maybe_unused]] static const int registered = std::atexit([] {
    if (process == getpid()) action();
  });
  process = getpid();
}

}  // namespace dlaunch::internal
