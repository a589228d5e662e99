// The keeper: a tiny process between the agent and the workers, so that nothing is left behind when the agent
// is killed with SIGKILL.
//
// The agent forks it before it has opened anything. The keeper is the parent of all workers and a subreaper,
// so every descendant of a worker, daemonised or orphaned, stays below it. It has a session of its own, so a
// signal to the agent's process group or terminal does not reach it. Three deaths, three answers:
//   the agent dies    -> the socket between them closes; the keeper kills all its descendants and exits.
//   the keeper dies   -> the kernel kills the workers (parent-death signal), and the agent, itself a
//   subreaper,
//                        inherits and kills the rest.
//   a worker dies     -> the keeper reaps it and tells the agent.
// It also makes starting cheap: it is small, and clones with CLONE_VM | CLONE_VFORK.
//
// The two talk over a stream socket: a Frame, then `length` bytes. A Spawn carries two descriptors, the write
// ends for the worker's stdout and stderr.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "store/base/result.h"

namespace dlaunch::agent {

enum class FrameKind : std::uint32_t {
  // to the keeper
  spawn = 1,   // body: u32 argc, envc, cpuc; cpuc u32 CPUs; argc + 2*envc NUL-terminated strings
  signal_all,  // number: the signal
  kill_all,
  // to the agent
  started,       // number: pid
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
  pid_t pid = 0;
  int socket = -1;  // the agent's end; closing it makes the keeper kill everything and exit
};

// Forks the keeper. Call it early: it inherits whatever is open and mapped. `argv0` is the start of the
// process's argument area, `argv0_size` its size; the keeper's name in `ps` is written there.
// `scratch_dir` (empty: none) is removed when the keeper ends, as the last of all.
Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const std::string& scratch_dir);

}  // namespace dlaunch::agent
