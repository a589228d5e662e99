// The keeper and its guard: two tiny processes between the agent and the workers, so that nothing is left
// behind when the agent is killed with SIGKILL, or any two of the three at once.
//
//   agent -- guard -- keeper -- workers
//
// The agent forks them before it has opened anything. The keeper is the parent of all workers. All three are
// subreapers, so every descendant of a worker, daemonised or orphaned, stays below the lowest of them that
// lives; and all three know what else a job leaves behind (JobTraces). Guard and keeper have sessions of
// their own: a signal to the agent's process group or terminal does not reach them. Whose death, whose act:
//
//   agent: the socket to the keeper closes; the keeper ends its descendants, then itself.
//   keeper: the kernel kills the workers (parent-death signal); the guard ends what they leave.
//   guard: the keeper becomes the agent's child, and goes on.
//   worker: the keeper reaps it and tells the agent.
//
// Of any two that die at once the third ends everything. If all three do, the workers die by the parent-death
// signal, and their descendants live until the next job's start ends the control group they are in; where
// there is none, nobody finds them.
//
// The keeper also makes starting cheap: it is small, and clones with CLONE_VM | CLONE_VFORK.
//
// Agent and keeper talk over a stream socket: a Frame, then `length` bytes. A Spawn carries two descriptors,
// the write ends for the worker's stdout and stderr.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "agent/job_traces.h"
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
  keep_alive,           // number: milliseconds
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

struct Keeper {
  pid_t guard = 0;
  int socket =
      -1;  // the agent's end; closing it makes the keeper end everything, then itself, then the guard
  JobTraces traces;  // without the group, of which the keeper tells
};

Error cannot_start_keeper(int error);

// Why a process could not be started, by errno, and what to do.
std::string advice_on_start(int error);

// Forks the guard, which makes the control group (`make_group`, for instance make_job_group; null: there is
// to be none), forks the keeper and says so (FrameKind::ready). Call it early: they inherit whatever is open
// and mapped. `argv0` is the start of the process's argument area, `argv0_size` its size; their names in `ps`
// are written there.
using MakeGroup = Result<JobGroup> (*)();
Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobTraces& traces,
                            MakeGroup make_group = nullptr);

}  // namespace dlaunch::agent
