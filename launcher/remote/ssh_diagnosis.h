// Why a host's dlaunch did not start, and what to do: from what ssh, a shell or dlaunch itself said. Pure.
#pragma once

#include <string>

#include "agent/model/exit_status.h"

namespace dlaunch::launcher {

struct StartFailure {
  std::string host;
  std::string login;  // as ssh was given it: "user@host"
  int node_rank = 0;
  std::string program;       // what was run on this machine: "ssh"
  agent::ExitStatus status;  // with which it ended
  std::string stderr_tail;   // the last lines of its stderr
};

// One sentence.
std::string explain(const StartFailure& failure);

// Whether dlaunch itself refused its command line there.
bool is_usage_error(const StartFailure& failure);

}  // namespace dlaunch::launcher
