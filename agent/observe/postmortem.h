// What can be learned of a worker's end besides its exit status: the error file it wrote, the kernel's
// out-of-memory killer, the limit on processes, a full /dev/shm, a timer of its own, its last lines. Touches
// only files; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "agent/model/spawner.h"
#include "agent/model/worker_exit.h"
#include "agent/observe/oom_watch.h"

namespace dlaunch::agent {

class Postmortem {
 public:
  // `scratch_dir` is where the workers' error files are; empty: they have none. `log_dir` is this job's
  // (agent/output/log_dir.h): an error file that says something is kept there, as torchrun keeps it. Empty:
  // nowhere. `warn` is told of files that are of no use; may be unset.
  using Warn = std::function<void(const std::string& sentence)>;
  // What the kernel has refused until now is not this job's.
  Postmortem(std::string scratch_dir, std::string log_dir, Warn warn);

  // Why this job itself has sent a worker a signal, not to stop it; none: it has not.
  struct Sent {
    int signo = 0;
    std::string why;
  };
  void ask_of_signals(std::function<std::optional<Sent>(ProcKey)> ask) { sent_ = std::move(ask); }

  // A worker runs: from now on the kernel's counters of memory are ours. Does its work once.
  void begin();

  // Adds what is known of this end. `killed`: it was us who killed it. REQUIRES: it is no success.
  void examine(ProcKey key, std::int64_t pid, bool killed, WorkerExit& exit);

 private:
  // That the kernel has refused this job a process or a thread; empty: it has not.
  std::string explain_refusals(std::int64_t now_ns);
  void read_error_file(ProcKey key, std::int64_t now_ns, WorkerExit& exit) const;

  std::string scratch_dir_;
  std::string log_dir_;
  Warn warn_;
  std::function<std::optional<Sent>(ProcKey)> sent_;
  bool begun_ = false;
  std::uint64_t refusals_;  // of processes and threads, that were there before or are explained
  std::int64_t refused_until_unix_ns_ = 0;  // what ends until then may have met the same
  OomWatch oom_;
};

}  // namespace dlaunch::agent
