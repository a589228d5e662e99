// How a process ended, made by a test.
#pragma once

#include "agent/model/exit_status.h"

namespace dlaunch::agent {

constexpr ExitStatus exited(int code) { return {ExitStatus::How::exited, code, false}; }

}  // namespace dlaunch::agent
