// What guard and keeper (agent/process/keeper.h) do for themselves when they begin.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "agent/process/worker_start.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// From the agent's end, until the guard does the keeper's task: the keeper tries for a minute to end
// everything, and may be stopped.
inline constexpr std::chrono::milliseconds default_keeper_timeout = std::chrono::seconds(70);

// A process's name, and where it stands for `ps`. The words are made by the agent: what a forked process
// writes is copied page by page before it can begin.
struct ProcessName {
  const char* comm;
  std::string words;  // as long as the area
  char* area;
};

// "COMM of PID", of this process. `area` is the start of its argument area.
ProcessName name_in(char* area, std::size_t size, const char* comm);
void rename_process(const ProcessName& name);

// How kept_ignored are set now. Of the agent before it has set any: as workers inherit them.
Inherited inherited_signals();
// Those in kept_ignored.
void ignore_signals();

// For a process forked by an agent that runs: no signal calls a handler of the agent's, and of its
// descriptors only the standard ones and `kept` (-1: none) stay open, so that no port or file waits for the
// helper's end.
void drop_agents_state(std::vector<int> kept);

// A pidfd: readable once the process has ended. -1: the kernel has none. (The headers may be older than it.)
int open_process(pid_t pid);

// From before a fork until the forked process has its own ways with signals: one that comes meanwhile would
// end it, or be passed on to the agent by a handler of the agent's.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};
// In the forked process, which leaves that scope by no other way.
void allow_all_signals();

}  // namespace dlaunch::agent
