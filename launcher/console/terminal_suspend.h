// Ctrl-Z of the terminal that dlaunch runs in.
#pragma once

#include "agent/output/output.h"
#include "agent/process/keeper_spawner.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::launcher {

// From now on SIGTSTP stops the workers with this process, and they go on with it, at the window's size of
// then. All arguments outlive the loop's run.
void suspend_with_terminal(agent::UvPoller& poller, agent::KeeperSpawner& spawner,
                           const agent::Output& output);

}  // namespace dlaunch::launcher
