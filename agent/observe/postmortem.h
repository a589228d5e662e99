// Finds the cause of a worker's end beyond its exit status, and what the user can try: from the error file it
// wrote, the crash that its page
// shows, the kernel's out-of-memory killer, the limit on processes, a full /dev/shm, a timer of its own, and
// its last lines. Accesses only files; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/spawner.h"
#include "agent/model/worker_exit.h"
#include "agent/observe/exit_remedy.h"
#include "agent/observe/oom_watch.h"

namespace dlaunch::agent {

class Postmortem {
 public:
  using Warn = std::function<void(const std::string& sentence)>;
  // `scratch_dir` holds the workers' error files; empty: they have none. `log_dir` is this job's
  // (agent/output/log_dir.h): error files with content are copied there, like torchrun does; empty: they are
  // not copied. `warn` receives a sentence about each malformed file; may be unset. Processes and threads
  // that the kernel has refused until now do not belong to this job.
  // `node`: where the workers run, for what the user can try.
  struct Node {
    std::string host;
    std::vector<std::string> command;  // program and arguments
    std::string pages_dir;             // holds the workers' pages; empty: there are none
  };
  Postmortem(std::string scratch_dir, std::string log_dir, Warn warn, Node node = {});

  // A signal that this job itself has sent to a worker, other than to stop it; none: it has sent none.
  struct Sent {
    int signo = 0;
    std::string why;
  };
  void ask_of_signals(std::function<std::optional<Sent>(ProcKey)> ask) { sent_ = std::move(ask); }

  // A worker runs: kills that the kernel counts from now on may belong to this job. Further calls do nothing.
  void begin();
  // This worker is about to start, with this rank in the job; it has started; it has ended, and examine() is
  // not called.
  void expect(ProcKey key, int rank) { running_.insert_or_assign(key, Running{rank, 0}); }
  void on_started(ProcKey key, std::int64_t pid);
  void forget(ProcKey key) { running_.erase(key); }

  // Adds to `exit` what is known of the cause. `killed`: dlaunch itself killed the worker. REQUIRES: its
  // status is not a success.
  void examine(ProcKey key, std::int64_t pid, bool killed, WorkerExit& exit);

 private:
  struct Running {
    int rank = 0;
    std::int64_t pid = 0;  // 0: it has not started yet
  };

  void explain_crash(ProcKey key, std::int64_t pid, WorkerExit& exit, ExitFacts& facts) const;
  void find_cause(ProcKey key, std::int64_t pid, std::int64_t now_ns, WorkerExit& exit);
  [[nodiscard]] OutOfMemory memory_by_rank(ProcKey key, const WorkerExit& exit,
                                           std::optional<std::uint64_t> limit) const;
  // A sentence if the kernel has refused this job a process or a thread; else empty.
  std::string explain_refusals(std::int64_t now_ns);
  void read_error_file(ProcKey key, std::int64_t now_ns, WorkerExit& exit) const;

  std::string scratch_dir_;
  std::string log_dir_;
  Warn warn_;
  Node node_;
  std::string folder_;  // the workers' working directory
  std::map<ProcKey, Running> running_;
  std::function<std::optional<Sent>(ProcKey)> sent_;
  bool begun_ = false;
  std::uint64_t refusals_;  // of processes and threads: earlier ones, and those that are explained
  std::int64_t refused_until_unix_ns_ = 0;  // a worker that ends until then may have met the same limit
  OomWatch oom_;
};

}  // namespace dlaunch::agent
