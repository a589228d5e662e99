// Ctrl-Z in dlaunch's terminal.
#pragma once

#include "agent/output/output.h"
#include "agent/process/keeper_spawner.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// From now on, SIGTSTP suspends the workers with this process, and they continue with it, with the terminal's
// size at that time. REQUIRES: all arguments outlive the loop's run.
void suspend_with_terminal(UvPoller& poller, agent::KeeperSpawner& spawner, const agent::Output& output);

}  // namespace dlaunch::launcher
