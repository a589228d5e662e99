// The user's wish to end a command that shows something until then.
#pragma once

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace dlaunch::launcher {

inline std::atomic<bool> interrupted = false;

// From now on these signals set `interrupted`. They end a wait for a descriptor or a time (no SA_RESTART).
inline void catch_interrupts(std::initializer_list<int> signals) {
  for (const int signo : signals) {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    sigaction(signo, &action, nullptr);
  }
}

}  // namespace dlaunch::launcher
