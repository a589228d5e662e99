// What guard and keeper (agent/keeper.h) do for themselves when they begin.
#pragma once

#include <csignal>
#include <cstddef>
#include <string>

#include "agent/worker_start.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// From the agent's end, until the guard does the keeper's task: the keeper tries for a minute to end
// everything, and may be stopped.
inline constexpr std::chrono::milliseconds usual_keepers_time = std::chrono::seconds(70);

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

// Those in kept_ignored; how they were before is what workers inherit.
Inherited ignore_signals();

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
