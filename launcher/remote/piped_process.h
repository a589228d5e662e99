// A process whose three streams are pipes to this one.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Owns nothing: the caller watches, reads, writes and closes the descriptors, and waits for the process.
struct PipedProcess {
  pid_t pid = 0;
  int input = -1;
  std::array<int, 2> outputs{-1, -1};  // its stdout and stderr
};

// Runs the command in its own session: the caller must forward the terminal's signals. The descriptors are
// non-blocking and close-on-exec.
Result<PipedProcess> run_with_pipes(const std::vector<std::string>& command);

}  // namespace dlaunch::launcher
