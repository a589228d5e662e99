// The relay's end of relay_protocol.h: a dlaunch that another one started on this host to run processes here.
#pragma once

#include <string>

namespace dlaunch::launcher {

// Runs until standard input ends, is silent for silence_limit, or is malformed; then the inputs of its
// processes end, too. Returns the exit code. `key`: of the job's --lifeline.
int run_relay(const std::string& key);

}  // namespace dlaunch::launcher
