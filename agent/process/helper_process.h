// What guard and keeper (agent/process/keeper.h) do when they start: name, signals, descriptors.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "agent/process/worker_start.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// From the agent's end until the guard takes over the keeper's task. The keeper itself tries for a minute to
// end everything, and it may be stopped.
inline constexpr std::chrono::milliseconds default_keeper_timeout = std::chrono::seconds(70);

// A process's name, and the memory in which `ps` finds it. The agent prepares the words, because each page
// that a forked process writes must be copied first.
struct ProcessName {
  const char* comm;
  std::string words;  // as long as the area
  char* area;
};

// "COMM of PID" with this process's pid. `area` is the start of its argument area.
ProcessName name_in(char* area, std::size_t size, const char* comm);
void rename_process(const ProcessName& name);

// The current settings of the signals in kept_ignored. Called in the agent before it changes any, so that
// workers can inherit them.
Inherited inherited_signals();
// Ignores the signals in kept_ignored.
void ignore_signals();

// For a process forked by a running agent: resets the agent's signal handlers, and closes all descriptors but
// the standard ones and `kept` (-1: none), so that no port or file stays in use until the helper ends.
void drop_agents_state(std::vector<int> kept);

// A pidfd: readable once the process has ended. -1: the kernel has none. (The headers may be older than this
// system call.)
int open_process(pid_t pid);

// Blocks all signals from before a fork until the forked process has set its own handlers. Otherwise a signal
// would end that process, or a handler copied from the agent would pass it on to the agent.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};
// For the forked process, which never runs the destructor above.
void allow_all_signals();

}  // namespace dlaunch::agent
