#include "agent/observe/worker_looks.h"

#include <utility>

#include "agent/observe/process_condition.h"
#include "agent/observe/worker_pages.h"

namespace dlaunch::agent {
namespace {

WorkerLook look_at(const JobStatus& status, const WorkerStatus& worker, const std::string& pages_dir) {
  WorkerLook look{worker.rank, worker.local_rank, worker.pid};
  if (!pages_dir.empty()) {
    auto seen = read_worker_page(worker_page_path(pages_dir, static_cast<std::uint32_t>(status.round),
                                                  static_cast<std::uint32_t>(worker.local_rank)));
    if (seen && seen->record.world_size == status.world_size) look.record = std::move(seen->record);
  }
  // The worker may be a shell that waits for the recording process.
  if (look.record && condition_of(look.record->pid) != Condition::ended) look.pid = look.record->pid;
  look.condition = worker.state == "ended" ? Condition::ended : condition_of(look.pid);
  if (look.condition == Condition::ended) return look;
  look.doing = state_of(look.pid);
  look.memory = resident_bytes(look.pid);
  return look;
}

}  // namespace

std::vector<WorkerLook> look_at_workers(const JobStatus& status, const std::string& pages_dir) {
  std::vector<WorkerLook> looks;
  for (const WorkerStatus& worker : status.workers) looks.push_back(look_at(status, worker, pages_dir));
  return looks;
}

WorkerLooks::WorkerLooks(Dependencies dependencies, Config config)
    : dependencies_(dependencies), config_(std::move(config)) {
  timer_ = dependencies_.timers.arm(dependencies_.clock.now() + config_.period, *this);
}

WorkerLooks::~WorkerLooks() { dependencies_.timers.disarm(timer_); }

void WorkerLooks::on_timer(TimerId) {
  look();
  timer_ = dependencies_.timers.arm(dependencies_.clock.now() + config_.period, *this);
}

void WorkerLooks::look() {
  const JobStatus status = config_.status();
  config_.on_look(dependencies_.clock.now(), status, look_at_workers(status, config_.pages_dir));
}

}  // namespace dlaunch::agent
