#include "agent/starts.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace dlaunch::agent {
namespace {

bool is_readable(int fd, int patience_ms) {
  pollfd ended{fd, POLLIN, 0};
  return poll(&ended, 1, patience_ms) > 0;
}

using Workers = std::vector<std::unique_ptr<StartingWorker>>;

std::optional<Starts::Failure> take_out(Workers& workers, pid_t pid) {
  const auto found =
      std::find_if(workers.begin(), workers.end(), [&](const auto& worker) { return worker->pid() == pid; });
  if (found == workers.end()) return {};
  const Starts::Failure failure{(*found)->error(), (*found)->what()};
  workers.erase(found);
  return failure;
}

}  // namespace

Starts::~Starts() {
  for (const Batch& batch : batches_) {
    close(batch.done);
    if (batch.held >= 0) close(batch.held);
  }
}

pid_t Starts::begin(WorkerStart start, const Inherited& inherited, Failure& failure) {
  if (!batch_is_open()) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      failure = {errno, "no pipe to see it begin: "};
      return -1;
    }
    batches_.push_back({ends[0], ends[1], {}});
  }
  auto worker = std::make_unique<StartingWorker>(std::move(start), inherited);
  const pid_t pid = worker->pid();
  if (pid < 0) {
    failure = {worker->error(), worker->what()};
  } else {
    batches_.back().workers.push_back(std::move(worker));
  }
  return pid;
}

void Starts::close_batch() {
  if (batch_is_open()) close(std::exchange(batches_.back().held, -1));
}

std::vector<pid_t> Starts::take_begun() {
  std::vector<pid_t> begun;
  while (!batches_.empty() && batches_.front().held < 0 && is_readable(batches_.front().done, 0)) {
    Batch& batch = batches_.front();
    for (auto& worker : batch.workers) {
      if (worker->error() == 0) {
        begun.push_back(worker->pid());
      } else {
        failed_.push_back(std::move(worker));
      }
    }
    close(batch.done);
    batches_.pop_front();
  }
  return begun;
}

std::optional<Starts::Failure> Starts::take_ended(pid_t pid) {
  if (auto failure = take_out(failed_, pid)) return failure;
  for (Batch& batch : batches_) {
    if (auto failure = take_out(batch.workers, pid)) return failure;
  }
  return {};
}

void Starts::await(int patience_ms) {
  close_batch();
  for (const Batch& batch : batches_) is_readable(batch.done, patience_ms);
}

}  // namespace dlaunch::agent
