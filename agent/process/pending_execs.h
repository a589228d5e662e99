// Pending execs: the workers between clone and exec. Workers begun in one go are one batch. A pipe shows when
// the whole batch has called exec: each worker holds the write end until its exec or its end closes it.
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
    int error = 0;  // errno
    std::string
        what;  // what failed if it was not exec; otherwise why exec failed, if more than errno is known
  };

  PendingExecs() = default;
  ~PendingExecs();
  PendingExecs(const PendingExecs&) = delete;
  PendingExecs& operator=(const PendingExecs&) = delete;

  // Returns the worker's pid. If no process could be made, -1 and `failure`; later failures are known when
  // the worker has ended. `session`: null for one of its own.
  pid_t begin(WorkerStart start, const Inherited& inherited, Failure& failure,
              WorkerSession* session = nullptr);
  // Workers begun from now on belong to another batch.
  void close_batch();
  [[nodiscard]] bool batch_is_open() const { return !batches_.empty() && batches_.back().held >= 0; }
  // Readable once take_started() has something to return; -1: no worker is pending.
  [[nodiscard]] int descriptor() const { return batches_.empty() ? -1 : batches_.front().done; }
  // The workers that have called exec since the last call, ended or not. Does not block.
  std::vector<pid_t> take_started();
  // The process has been reaped. Empty: take_started() had returned it, or it is not one of these workers. An
  // error of 0: it had called exec.
  std::optional<Failure> take_ended(pid_t pid);
  // Waits until all have called exec or ended, `patience_ms` at most: reading a program may take long.
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
  std::map<pid_t, PendingExec> pending_;  // until exec or their end
};

}  // namespace dlaunch::agent
