// Asks a worker at a Unix socket, by HTTP: PyTorch's server in it, or that of the Python package dlaunch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// A longer answer is an error.
inline constexpr std::size_t longest_answer = 64U << 20;

// The answer to POST /handler/NAME. Blocks until the deadline at most. An error: nobody listens there, the
// handler is not known, the answer is no HTTP, or it has not come whole.
Result<std::string> ask_worker(const std::string& path, const std::string& handler, TimePoint deadline);

// Pure: the body of this whole answer; none: its status is not 200, or it is no HTTP, or it is cut.
std::optional<std::string> body_of(std::string_view answer);

}  // namespace dlaunch::launcher
