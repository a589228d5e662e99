// What all commands share: how they speak, and what they exit with.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

inline constexpr int exit_error = 1;
inline constexpr int exit_usage = 2;

// Text to standard output. Returns 0, or what fail() does where it cannot be written.
int print(const std::string& text);

// One line on standard error.
void note(const std::string& sentence);

// The same. Returns the exit code that belongs to it.
int fail(const std::string& sentence);
int fail(const Error& error);

}  // namespace dlaunch::launcher
