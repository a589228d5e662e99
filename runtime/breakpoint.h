// A process that waits for a debugger.
#pragma once

#include <string>

namespace dlaunch {

// Says on stderr who waits and how to attach, and returns when a debugger has attached. `who`: "rank 2".
void await_debugger(const std::string& who);

}  // namespace dlaunch
