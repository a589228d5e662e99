#include "agent/observe/straggler_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/observe/worker_pages.h"

namespace dlaunch::agent {

StragglerWatch::StragglerWatch(Dependencies dependencies, Config config)
    : dependencies_(dependencies), config_(std::move(config)), stragglers_(config_.window) {
  timer_ = dependencies_.timers.arm(dependencies_.clock.now() + stragglers_.period(), *this);
}

StragglerWatch::~StragglerWatch() { dependencies_.timers.disarm(timer_); }

void StragglerWatch::add_to(JobStatus& status) const {
  if (status.round != round_) return;
  for (WorkerStatus& worker : status.workers) {
    const auto found = stragglers_.ranks().find(worker.rank);
    if (found == stragglers_.ranks().end()) continue;
    worker.came_last = found->second.came_last;
    worker.late_s = to_seconds(found->second.late);
  }
}

std::string StragglerWatch::sentence() const {
  const auto worst = stragglers_.worst(dependencies_.clock.now());
  return worst ? describe(*worst) : "";
}

void StragglerWatch::on_timer(TimerId) {
  const JobStatus status = config_.status();
  if (status.state == "running") look(status);
  timer_ = dependencies_.timers.arm(dependencies_.clock.now() + stragglers_.period(), *this);
}

void StragglerWatch::look(const JobStatus& status) {
  const TimePoint now = dependencies_.clock.now();
  if (std::exchange(round_, status.round) != status.round) stragglers_.begin_round(now);
  std::vector<WorkerRecord> records;
  for (const WorkerStatus& worker : status.workers) {
    auto seen = read_worker_page(worker_page_path(config_.pages_dir, static_cast<std::uint32_t>(status.round),
                                                  static_cast<std::uint32_t>(worker.local_rank)));
    if (seen && seen->record.world_size == status.world_size) records.push_back(std::move(seen->record));
  }
  stragglers_.look(now, records);
  const auto note = stragglers_.take_note(now);
  if (!note) return;
  const auto worker = std::ranges::find(status.workers, note->rank, &WorkerStatus::rank);
  const std::string place = worker == status.workers.end()
                                ? ""
                                : " (pid " + std::to_string(worker->pid) + " on host " + status.host + ")";
  config_.on_log({Severity::warning, describe(*note) + "; dlaunch dump " + status.job +
                                         " there shows what rank " + std::to_string(note->rank) + place +
                                         " does"});
}

}  // namespace dlaunch::agent
