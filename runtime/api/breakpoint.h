// How a process waits for a debugger.
#pragma once

#include <functional>
#include <string>

namespace dlaunch::internal {

// Prints to stderr which process waits, and how to attach to it.
void announce_wait(const std::string& who);

// Returns when a debugger is attached. `check` is called from time to time; what it throws ends the wait.
void await_debugger(const std::function<void()>& check);

}  // namespace dlaunch::internal
