// The calling thread's stack, as text.
#pragma once

#include <string>

namespace dlaunch::internal {

// Whether errors of DebugLevel::detail show it: DLAUNCH_SHOW_CPP_STACKTRACES, or else
// TORCH_SHOW_CPP_STACKTRACES, is 1. Read once.
bool shows_call_stacks();

// A line for each function, the innermost first, without this one. If a program does not export its functions
// (-rdynamic), only the offset in its file is known; addr2line converts it to a line.
std::string call_stack();

}  // namespace dlaunch::internal
