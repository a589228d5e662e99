#include "agent/observe/worker_looks.h"

#include <optional>
#include <utility>

#include "agent/observe/process_condition.h"
#include "agent/observe/worker_pages.h"

namespace dlaunch::agent {
namespace {

// None: it has recorded nothing in this world.
std::optional<WorkerSeen> page_of(const JobStatus& status, const WorkerStatus& worker,
                                  const std::string& pages_dir) {
  if (pages_dir.empty()) return std::nullopt;
  auto seen = read_worker_page(worker_page_path(pages_dir, static_cast<std::uint32_t>(status.round),
                                                static_cast<std::uint32_t>(worker.local_rank)));
  return seen && seen->record.world_size == status.world_size ? std::move(seen) : std::nullopt;
}

WorkerLook look_at(const JobStatus& status, const WorkerStatus& worker, const std::string& pages_dir) {
  WorkerLook look{worker.rank, worker.local_rank, worker.pid};
  auto seen = page_of(status, worker, pages_dir);
  // The worker may be a shell that waits for the recording process.
  const bool records = seen && seen->condition != Condition::ended;
  if (records) look.pid = seen->record.pid;
  if (worker.state == "ended") {
    look.condition = Condition::ended;
  } else {
    look.condition = records ? seen->condition : condition_of(look.pid);
  }
  if (look.condition != Condition::ended) {
    look.doing = records ? std::move(seen->state) : state_of(look.pid);
    look.memory = resident_bytes(look.pid);
  }
  if (seen) look.record = std::move(seen->record);
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

void WorkerLooks::look(const JobStatus& status) {
  config_.on_look(dependencies_.clock.now(), status, look_at_workers(status, config_.pages_dir));
}

}  // namespace dlaunch::agent
