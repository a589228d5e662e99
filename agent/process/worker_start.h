// Starting one worker: what it inherits, what it is given on top, and the few steps between clone and exec.
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

// What the keeper ignores for itself, and its workers do not, unless whoever started dlaunch ignored it
// (nohup).
inline constexpr std::array kept_ignored{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1, SIGUSR2,
                                         SIGPIPE, SIGXFSZ, SIGTSTP, SIGTTIN, SIGTTOU};

// Signals as the caller of dlaunch had set them. No worker begins with one blocked: nobody blocks a signal
// for the programs he starts, and one that does so by accident would make their gentle stop impossible.
struct Inherited {
  std::array<bool, NSIG> ignored{};
};

struct WorkerStart {
  std::vector<char> words;                                       // what argv and environment point into
  std::vector<const char*> argv;                                 // argv[0] is searched on PATH
  std::vector<std::pair<const char*, const char*>> environment;  // set on top of this process's own
  std::vector<std::uint32_t> cpus;                               // empty: as inherited
  std::vector<std::uint32_t> memory_nodes;                       // preferred for its memory; likewise
  int out = -1;                                                  // its stdout and stderr
  int err = -1;
  bool owns_terminal = false;  // these are its controlling terminal, with its process group in the foreground
  int cgroup = -1;             // the control group it is born in; -1: this process's
};

struct ChildPlan;

// A worker on its way to exec. It has a session of its own, and dies with this process. It runs in this
// process's memory, and this process runs on: to wait for each exec (CLONE_VFORK, posix_spawn) makes starts
// follow one another on a single processor. Must not be destroyed before the worker has called exec or ended.
class StartingWorker {
 public:
  // `inherited` outlives it. The descriptors of `start` can be closed afterwards.
  StartingWorker(WorkerStart start, const Inherited& inherited);
  ~StartingWorker();
  StartingWorker(const StartingWorker&) = delete;
  StartingWorker& operator=(const StartingWorker&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }  // -1: there is none
  // errno of what kept it from its program; 0: nothing. To be asked once it has called exec or ended.
  [[nodiscard]] int error() const;
  // What failed, where it was not exec: "cannot bind it to its CPUs: "; and what is wrong with a program that
  // the kernel does not run: "it is an aarch64 program, and this machine is x86_64: ". To be asked likewise.
  [[nodiscard]] std::string what() const;

 private:
  std::unique_ptr<ChildPlan> plan_;
  pid_t pid_ = -1;
};

}  // namespace dlaunch::agent
