#include "agent/process/pending_execs.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dlaunch::agent {
namespace {

bool is_readable(int fd, int patience_ms) {
  pollfd ended{fd, POLLIN, 0};
  return poll(&ended, 1, patience_ms) > 0;
}

}  // namespace

PendingExecs::~PendingExecs() {
  for (const Batch& batch : batches_) {
    close(batch.done);
    if (batch.held >= 0) close(batch.held);
  }
}

pid_t PendingExecs::begin(WorkerStart start, const Inherited& inherited, Failure& failure,
                          WorkerSession* session) {
  if (!batch_is_open()) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      failure = {errno, "cannot make a pipe to watch its start: "};
      return -1;
    }
    batches_.push_back({next_batch_++, ends[0], ends[1], {}});
  }
  auto worker = std::make_unique<StartingWorker>(std::move(start), inherited, session);
  const pid_t pid = worker->pid();
  if (pid < 0) {
    failure = {worker->error(), worker->what()};
  } else {
    Batch& batch = batches_.back();
    batch.pids.push_back(pid);
    pending_[pid] = {batch.number, std::move(worker)};
  }
  return pid;
}

void PendingExecs::close_batch() {
  if (batch_is_open()) close(std::exchange(batches_.back().held, -1));
}

std::vector<pid_t> PendingExecs::take_started() {
  std::vector<pid_t> begun;
  while (!batches_.empty() && batches_.front().held < 0 && is_readable(batches_.front().done, 0)) {
    const Batch& batch = batches_.front();
    for (const pid_t pid : batch.pids) {
      const auto start = pending_.find(pid);
      const bool is_its =
          start != pending_.end() && start->second.batch == batch.number;  // a later batch may reuse the pid
      // A worker that failed is about to end, and is reported after its end.
      if (!is_its || start->second.worker->error() != 0) continue;
      begun.push_back(pid);
      pending_.erase(start);
    }
    close(batch.done);
    batches_.pop_front();
  }
  return begun;
}

std::optional<PendingExecs::Failure> PendingExecs::take_ended(pid_t pid) {
  const auto start = pending_.extract(pid);
  if (!start) return {};
  return Failure{start.mapped().worker->error(), start.mapped().worker->what()};
}

void PendingExecs::await(int patience_ms) {
  close_batch();
  for (const Batch& batch : batches_) is_readable(batch.done, patience_ms);
}

}  // namespace dlaunch::agent
