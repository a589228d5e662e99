// Output and exit codes, shared by all commands.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

inline constexpr int exit_error = 1;
inline constexpr int exit_usage = 2;

// Writes the text to standard output. Returns 0, or the exit code of fail() if it cannot be written.
int print(const std::string& text);

// Writes one line to standard error.
void note(const std::string& sentence);

// The same; returns the exit code for it.
int fail(const std::string& sentence);
int fail(const Error& error);

}  // namespace dlaunch::launcher
