// The keeper and its guard: two small processes beside the agent, so that nothing is left behind when the
// agent is killed with SIGKILL, or any two of the three at once.
//
//   agent -- guard -- keeper -- workers       without a control group
//   agent -- keeper -- workers                with one; the guard is another child of the agent
//
// The agent forks before it has opened anything. The keeper is the parent of all workers. The agent and the
// processes between it and the workers are subreapers, so every descendant of a worker, daemonised or
// orphaned, stays below the lowest of them that lives. All three know what else a job leaves behind and how
// its processes are found (JobResources): the control group, and a mark that every process inherits
// (agent/process/job_mark.h). Guard and keeper have sessions of their own: a signal to the agent's process
// group or terminal does not reach them. Each watches the others, and acts when one ends:
//
//   agent: the socket to the keeper closes; the keeper ends its descendants, then itself. The guard does the
//           same at once, sends SIGCONT to the keeper, which may be stopped, and kills it if it has not ended
//           after keeper_timeout.
//   keeper: the kernel kills the workers (parent-death signal). The agent ends what they leave, and the
//   guard;
//           then it starts another keeper, with a control group of its own, and another guard. The round has
//           failed. If the agent does not do so, because it is stopped, the guard ends what the workers
//           leave.
//   guard: the agent reports it and starts another, as a child of its own. That one stands above no process,
//           and finds them by the control group and the mark.
//   worker: the keeper reaps it and reports it to the agent.
//
// Of any two that die at once the third ends everything. With a control group the guard comes only when the
// job has begun (Guard::begin). If all three die, or agent and keeper before the guard is there, or keeper
// and guard while the agent is stopped, the workers die by the parent-death signal. Their descendants then
// live until the agent goes on, or until the next job's start ends the control group they are in; without
// one, nothing finds them.
//
// The keeper also makes starting cheap: it is small, and its workers are cloned into its memory.
//
// Agent and keeper talk over a stream socket: a Frame, then `length` bytes. A Spawn carries two descriptors,
// the write ends for the worker's stdout and stderr.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "agent/process/helper_process.h"
#include "agent/process/job_resources.h"
#include "agent/process/worker_start.h"
#include "store/base/result.h"

namespace dlaunch::agent {

enum class FrameKind : std::uint32_t {
  // to the keeper
  spawn = 1,   // body: u32 argc, envc, cpuc, nodec; u32 cpuc CPUs, nodec memory nodes; argc + 2*envc
               // NUL-terminated strings
  signal_all,  // number: the signal
  kill_all,
  suspend,  // every process, as by SIGSTOP
  resume,
  keep_alive,           // number: until when workers may run, in milliseconds of CLOCK_BOOTTIME; 0: for ever
  give_up,              // end; what is left survives SIGKILL
  leave,                // end; no process is left, and the agent removes the job's traces
  leave_after_success,  // do so without being asked once no process is left, if every worker that was asked
                        // for before has succeeded; a Spawn takes it back
  // to the agent
  ready,    // the first; number: the keeper's pid, or minus errno where there can be none; body: the control
            // group's path, with a descriptor of it, or without one why there is none
  started,  // number: pid
  spawn_failed,  // number: errno; body: what failed, where it was not exec
  exited,        // number: wait status; pid
  leftovers,     // number: how many; body: an example
  all_gone,
};

struct Frame {
  FrameKind kind{};
  std::uint32_t length = 0;
  std::uint32_t round = 0;
  std::uint32_t local_rank = 0;
  std::int64_t number = 0;
  std::int64_t pid = 0;
};

// Makes the control group, for instance make_job_cgroup; null: there is to be none.
using MakeCgroup = std::function<Result<JobCgroup>()>;

// What every keeper of an agent begins with.
struct KeeperConfig {
  char* argv0;  // the process's argument area: the helpers' names in `ps` are written there
  std::size_t argv0_size;
  JobResources resources;  // without the group, which each keeper makes
  MakeCgroup make_cgroup;
  std::chrono::milliseconds keeper_timeout;
  Inherited inherited;   // as workers have it
  rlimit descriptors{};  // likewise
};

struct Keeper {
  pid_t child = 0;  // of the agent: the guard, or the keeper itself
  int socket =
      -1;  // the agent's end; closing it makes the keeper end everything, then itself, then the guard
  int guards_life = -1;    // the agent's end of another, whose end is the guard's; closing it does the same
  JobResources resources;  // without the group, which the keeper reports
  ProcessName guards_name;
  KeeperConfig config;  // for another one
};

Error cannot_start_keeper(int error);

// Why a process could not be started, by errno, and what to do.
std::string advice_on_start(int error);

// Forks a process that makes the control group. Then it is the keeper; if there can be no group it is the
// guard and forks the keeper. The keeper reports that it is there (FrameKind::ready). Call it early: they
// inherit whatever is open and mapped. `argv0` is the start of the process's argument area, `argv0_size` its
// size.
Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobResources& resources,
                            const MakeCgroup& make_cgroup = nullptr,
                            std::chrono::milliseconds keeper_timeout = default_keeper_timeout);

// After the end of one, in an agent that runs: REQUIRES: nothing of its processes is left.
Result<Keeper> start_another_keeper(const KeeperConfig& config);

}  // namespace dlaunch::agent
