// Starting one worker: what it inherits, what it is given on top, and the few steps between clone and exec.
#pragma once

#include <sys/types.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::agent {

// What the keeper ignores for itself, and its workers do not, unless whoever started dlaunch ignored it
// (nohup).
inline constexpr std::array kept_ignored{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                         SIGUSR2, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};

// Signals as the caller of dlaunch had set them. No worker begins with one blocked: nobody blocks a signal
// for the programs he starts, and one that does so by accident would make their gentle stop impossible.
struct Inherited {
  std::array<bool, NSIG> ignored{};
};

struct WorkerStart {
  std::vector<const char*> argv;                                 // views of a buffer that outlives the start
  std::vector<std::pair<const char*, const char*>> environment;  // set on top of this process's own
  std::vector<std::uint32_t> cpus;                               // empty: as inherited
  int out = -1;                                                  // its stdout and stderr
  int err = -1;
  int group = -1;  // the control group it is born in; -1: this process's
};

struct WorkerStarted {
  pid_t pid = -1;         // -1: it was not
  int error = 0;          // errno
  const char* what = "";  // what failed, where it was not exec: "cannot bind it to its CPUs: "
};

// Starts it in a session of its own, and so that it dies with this process. Returns when it has begun, or
// cannot.
WorkerStarted start_worker(const WorkerStart& start, const Inherited& inherited);

}  // namespace dlaunch::agent
