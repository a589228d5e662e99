// Explains why a host's dlaunch did not start, and what to do, from the output of ssh, a shell or dlaunch.
// Pure.
#pragma once

#include <string>

#include "agent/model/exit_status.h"

namespace dlaunch::launcher {

struct StartFailure {
  std::string host;
  std::string login;  // as passed to ssh: "user@host"
  int node_rank = 0;
  std::string program;       // that ran on this machine: "ssh"
  agent::ExitStatus status;  // of that program
  std::string stderr_tail;   // the last lines of its stderr
};

// The reason and what to do, without the host; `node_rank` is not used.
std::string why_not_started(const StartFailure& failure);

// One sentence.
std::string explain(const StartFailure& failure);

// Whether the host was reached: its shell, or its dlaunch, has reported why it ended.
bool has_answered(const StartFailure& failure);

// Whether the host's dlaunch rejected its command line.
bool is_usage_error(const StartFailure& failure);

}  // namespace dlaunch::launcher
