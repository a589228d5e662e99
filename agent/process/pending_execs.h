// The workers between clone and exec. What is begun in one go is one batch, and a pipe tells when all of it
// is at its programs: each of the batch holds the write end until exec or its end closes it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/worker_start.h"

namespace dlaunch::agent {

class PendingExecs {
 public:
  struct Failure {
    int error = 0;     // errno
    std::string what;  // what failed, where it was not exec, or why exec did
  };

  PendingExecs() = default;
  ~PendingExecs();
  PendingExecs(const PendingExecs&) = delete;
  PendingExecs& operator=(const PendingExecs&) = delete;

  // Its pid; a failure is known at once where no process came to be, else when it has ended.
  pid_t begin(WorkerStart start, const Inherited& inherited, Failure& failure);
  // Whoever is begun from now on is of another batch.
  void close_batch();
  [[nodiscard]] bool batch_is_open() const { return !batches_.empty() && batches_.back().held >= 0; }
  // Readable once take_started() has something; -1: nobody is starting.
  [[nodiscard]] int descriptor() const { return batches_.empty() ? -1 : batches_.front().done; }
  // Who runs its program, or did and is not reaped. Does not block.
  std::vector<pid_t> take_started();
  // The process has been reaped. Empty: it had been told of by take_started(), or is none of ours; an error
  // of 0: it came to its program.
  std::optional<Failure> take_ended(pid_t pid);
  // Until all have begun, `patience_ms` at most: a program can lie where reading it takes long.
  void await(int patience_ms);

 private:
  struct Batch {
    std::uint64_t number = 0;
    int done = -1;  // the pipe's read end
    int held = -1;  // our write end; -1: the batch is closed
    std::vector<pid_t> pids;
  };
  struct PendingExec {
    std::uint64_t batch = 0;
    std::unique_ptr<StartingWorker> worker;
  };

  std::deque<Batch> batches_;
  std::uint64_t next_batch_ = 0;
  std::map<pid_t, PendingExec> pending_;  // until they are at their programs, or have ended
};

}  // namespace dlaunch::agent
