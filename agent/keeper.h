// The keeper and its guard: two tiny processes beside the agent, so that nothing is left behind when the
// agent is killed with SIGKILL, or any two of the three at once.
//
//   agent -- guard -- keeper -- workers       where there is no control group
//   agent -- keeper -- workers                where there is one; the guard is another child of the agent
//
// The agent forks before it has opened anything. The keeper is the parent of all workers. All above them are
// subreapers, so every descendant of a worker, daemonised or orphaned, stays below the lowest of them that
// lives; and all three know what else a job leaves behind (JobTraces). Guard and keeper have sessions of
// their own: a signal to the agent's process group or terminal does not reach them. Whose death, whose act:
//
//   agent: the socket to the keeper closes; the keeper ends its descendants, then itself.
//           A keeper that has not ended after keepers_time, since it is stopped, is ended by the guard.
//   keeper: the kernel kills the workers (parent-death signal); agent and guard end what they leave.
//   guard: the others go on.
//   worker: the keeper reaps it and tells the agent.
//
// Of any two that die at once the third ends everything: by the control group where there is one, which is
// why the guard then comes only when the job has begun (agent/late_guard.h). If all three do, or agent and
// keeper before that, the workers die by the parent-death signal, and their descendants live until the next
// job's start ends the control group they are in; where there is none, nobody finds them.
//
// The keeper also makes starting cheap: it is small, and its workers are cloned into its memory.
//
// Agent and keeper talk over a stream socket: a Frame, then `length` bytes. A Spawn carries two descriptors,
// the write ends for the worker's stdout and stderr.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>

#include "agent/helper_process.h"
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
  pid_t child = 0;  // of the agent: the guard, or the keeper itself
  int socket =
      -1;  // the agent's end; closing it makes the keeper end everything, then itself, then the guard
  JobTraces traces;  // without the group, of which the keeper tells
  ProcessName guards_name;
};

Error cannot_start_keeper(int error);

// Why a process could not be started, by errno, and what to do.
std::string advice_on_start(int error);

// Forks a process that makes the control group (`make_group`, for instance make_job_group; null: there is to
// be none). Then it is the keeper; where there can be no group it is the guard and forks the keeper. The
// keeper says that it is there (FrameKind::ready). Call it early: they inherit whatever is open and mapped.
// `argv0` is the start of the process's argument area, `argv0_size` its size; their names in `ps` are written
// there.
using MakeGroup = std::function<Result<JobGroup>()>;
Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobTraces& traces,
                            const MakeGroup& make_group = nullptr,
                            std::chrono::milliseconds keepers_time = usual_keepers_time);

}  // namespace dlaunch::agent
