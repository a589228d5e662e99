// Starts one worker: what it inherits, what is added, and the few steps between clone and exec.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::agent {

// Signals that the keeper ignores. Its workers do not, unless the process that started dlaunch ignored them
// (nohup).
inline constexpr std::array kept_ignored{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                         SIGPIPE, SIGXFSZ, SIGTSTP, SIGTTIN, SIGTTOU};

// Signals as the caller of dlaunch had set them. Workers start with no signal blocked: callers do not block
// signals on purpose, and one blocked by accident would make a gentle stop impossible.
struct Inherited {
  std::array<bool, NSIG> ignored{};
};

struct WorkerStart {
  std::vector<char> words;                                       // what argv and environment point into
  std::vector<const char*> argv;                                 // argv[0] is searched on PATH
  std::vector<std::pair<const char*, const char*>> environment;  // set on top of this process's own
  std::vector<std::uint32_t> cpus;                               // empty: as inherited
  std::vector<std::uint32_t> memory_nodes;  // preferred for its memory; empty: as inherited
  int out = -1;                             // its stdout and stderr
  int err = -1;
  int pmi = -1;                // its connection to the agent (PMI_FD); -1: none
  bool owns_terminal = false;  // these are its controlling terminal, with its process group in the foreground
  int cgroup = -1;             // the cgroup it starts in; -1: this process's
};

class WorkerSession;
struct ChildPlan;

// A worker before its exec. It leads a process group, in a session of its own or in `session`, and dies with
// this process. It runs in this process's memory while this process continues: waiting for each exec
// (CLONE_VFORK, posix_spawn) would run the starts one after the other. REQUIRES: the worker has called exec
// or ended before this is destroyed.
class StartingWorker {
 public:
  // `inherited` outlives it. The descriptors of `start` can be closed afterwards. `session`: null for one of
  // its own.
  StartingWorker(WorkerStart start, const Inherited& inherited, WorkerSession* session = nullptr);
  ~StartingWorker();
  StartingWorker(const StartingWorker&) = delete;
  StartingWorker& operator=(const StartingWorker&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }  // -1: there is none
  // errno of the step that failed; 0: it has called exec. REQUIRES: it has called exec or ended.
  [[nodiscard]] int error() const;
  // What failed if it was not exec: "cannot bind it to its CPUs: "; or why the kernel does not run the
  // program: "it is an aarch64 program, and this machine is x86_64: ". REQUIRES the same as error().
  [[nodiscard]] std::string what() const;

 private:
  std::unique_ptr<ChildPlan> plan_;
  pid_t pid_ = -1;
};

}  // namespace dlaunch::agent
