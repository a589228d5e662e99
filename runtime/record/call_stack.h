// The functions that the calling thread is in, as text.
#pragma once

#include <string>

namespace dlaunch {

// Whether errors of DebugLevel::detail show it: DLAUNCH_SHOW_CPP_STACKTRACES, or else
// TORCH_SHOW_CPP_STACKTRACES, is 1. Read once.
bool shows_call_stacks();

// A line for each function, the innermost first, without this one. Of a program that does not export its
// functions (-rdynamic) only the offset in its file is known, which addr2line turns into a line.
std::string call_stack();

}  // namespace dlaunch
