// The keeper and its guard: two small processes beside the agent, so that nothing is left behind when the
// agent is killed with SIGKILL, or any two of the three at once. The keeper is what containerd calls a shim;
// the guard is its watchdog.
//
//   agent -- guard -- keeper -- workers       without a cgroup
//   agent -- keeper -- workers                with a cgroup; the guard is another child of the agent
//
// The agent forks before it has opened anything. The keeper is the parent of all workers. The agent and the
// processes between it and the workers are subreapers: every descendant of a worker, daemonised or orphaned,
// stays below the lowest of them that lives. All three know what a job holds and how its processes are found
// (JobResources): by the cgroup, and by a mark that every process inherits (agent/process/job_mark.h). Guard
// and keeper have sessions of their own: a signal to the agent's process group or terminal does not reach
// them. Each watches the others. What happens when one of them ends:
//
//   agent:  The socket to the keeper closes; the keeper ends its descendants, then itself. The guard does the
//           same at once, sends SIGCONT to the keeper, which may be stopped, and kills it if it has not ended
//           after keeper_timeout.
//   keeper: The kernel kills the workers (parent-death signal). The agent ends what they leave, and the
//           guard; then it starts another keeper with a cgroup of its own, and another guard. The round has
//           failed. If the agent is stopped and cannot do so, the guard ends what the workers leave.
//   guard:  The agent reports it and starts another guard as its own child. That guard is an ancestor of no
//           worker; it finds them by the cgroup and the mark.
//   worker: The keeper reaps it and reports it to the agent.
//
// If any two die at once, the third ends everything. With a cgroup the guard starts only after the job has
// begun (Guard::begin). If all three die, or agent and keeper before the guard exists, or keeper and guard
// while the agent is stopped, the workers die by the parent-death signal. Their descendants then live until
// the agent continues, or until the next job's start kills the cgroup they are in; without a cgroup, nothing
// finds them.
//
// The keeper also makes starting cheap: it is small, and its workers are cloned into its memory.
//
// Agent and keeper exchange messages over a stream socket: a Frame, then `length` bytes. A Spawn carries two
// descriptors, the write ends for the worker's stdout and stderr, and a third for a worker that speaks PMI.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
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
  spawn = 1,   // number: how many workers of its round share its session, this one included; 0: it has its
               // own; owns_terminal: and a terminal. Body: u32 argc, envc, cpuc, nodec; u32 cpuc CPUs, nodec
               // memory nodes; argc + 2*envc NUL-terminated strings
  signal_all,  // number: the signal
  kill_all,
  suspend,  // sends SIGSTOP to every process
  resume,
  keep_alive,           // number: until when workers may run, in milliseconds of CLOCK_BOOTTIME; 0: for ever
  give_up,              // end; the processes that are left survive SIGKILL
  leave,                // end; no process is left, and the agent removes the job's resources
  leave_after_success,  // leave without a further command once no process is left, if all workers requested
                        // before have succeeded; a later Spawn revokes it
  // to the agent
  ready,    // the first frame; number: the keeper's pid, or minus errno if there is no keeper; body: with a
            // descriptor of the cgroup its path, without one the reason why there is none
  started,  // number: pid
  spawn_failed,  // number: errno; body: what failed, if it was not exec
  exited,        // number: wait status; pid; body: the most memory it held, in KiB (i64)
  leftovers,     // number: how many; body: an example
  all_gone,
};

inline constexpr std::int64_t owns_terminal = -1;

struct Frame {
  FrameKind kind{};
  std::uint32_t length = 0;
  std::uint32_t round = 0;
  std::uint32_t local_rank = 0;
  std::int64_t number = 0;
  std::int64_t pid = 0;
};

// What a Spawn carries: stdout, stderr, PMI; -1: none.
using SpawnDescriptors = std::array<int, 3>;

// Makes the cgroup, for instance make_job_cgroup; null: the job shall have none.
using MakeCgroup = std::function<Result<JobCgroup>()>;

// The configuration that all keepers of an agent share.
struct KeeperConfig {
  char* argv0;  // the process's argument area: the helpers' names in `ps` are written there
  std::size_t argv0_size;
  JobResources resources;  // without the cgroup, which each keeper makes
  MakeCgroup make_cgroup;
  std::chrono::milliseconds keeper_timeout;
  Inherited inherited;   // by the workers
  rlimit descriptors{};  // inherited by the workers, too
};

struct Keeper {
  pid_t child = 0;  // the agent's child: the guard, or the keeper itself
  // The agent's end. After it is closed the keeper ends everything, then itself, then the guard ends.
  int socket = -1;
  int guards_life = -1;    // the agent's end of a socket to the guard; closing it has the same effect
  JobResources resources;  // without the cgroup, which the keeper reports
  ProcessName guards_name;
  KeeperConfig config;  // for start_another_keeper()
};

Error cannot_start_keeper(int error);

// Why a process could not be started, by errno, and the remedy.
std::string advice_on_start(int error);

// Forks a process that makes the cgroup and becomes the keeper. If there can be no cgroup, that process
// becomes the guard and forks the keeper. The keeper reports that it has started (FrameKind::ready). Call
// this early: both inherit whatever is open and mapped. `argv0` is the start of the process's argument area,
// `argv0_size` its size.
Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobResources& resources,
                            const MakeCgroup& make_cgroup = nullptr,
                            std::chrono::milliseconds keeper_timeout = default_keeper_timeout);

// For a running agent whose keeper has ended. REQUIRES: none of that keeper's processes is left.
Result<Keeper> start_another_keeper(const KeeperConfig& config);

}  // namespace dlaunch::agent
