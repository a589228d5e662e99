// What another program says when it is run for that.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// Where PATH has it; empty: nowhere.
std::string find_on_path(const std::string& program);

// Runs it with its standard input closed: what it writes to both outputs, at most `most` bytes. It is ended
// at the deadline, and what it has written by then is returned. An error: it could not be run.
Result<std::string> output_of(const std::vector<std::string>& command, TimePoint deadline, std::size_t most);

}  // namespace dlaunch::launcher
