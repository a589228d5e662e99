// Runs a program and returns its output.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// The program's path, searched on PATH; empty: not found.
std::string find_on_path(const std::string& program);

// Runs it without standard input, and returns what it writes to stdout and stderr, at most `most` bytes. At
// the deadline it is stopped, and the output so far is returned. An error: it could not be started.
Result<std::string> output_of(const std::vector<std::string>& command, TimePoint deadline, std::size_t most);

}  // namespace dlaunch::launcher
