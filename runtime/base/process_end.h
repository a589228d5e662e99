// What is still to be done when the process ends by itself: by exit(), or by a return from main.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace dlaunch {

// `action` is called then, once, however often this was called; before the destructors of the static objects
// that were there at the first call. Not in copies of the process that fork() has made: what the action would
// end is not theirs. Any thread. _exit(), and a signal, leave no time for anything.
template <void (*action)()>
void at_process_end() {
  static std::atomic<pid_t> process = 0;
  // If there is no memory for it, the process ends as if it had been killed.
  [[maybe_unused]] static const int registered = std::atexit([] {
    if (process == getpid()) action();
  });
  process = getpid();
}

}  // namespace dlaunch
