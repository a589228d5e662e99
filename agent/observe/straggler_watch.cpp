#include "agent/observe/straggler_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dlaunch::agent {

void StragglerWatch::add_to(JobStatus& status) const {
  if (status.round != round_) return;
  for (WorkerStatus& worker : status.workers) {
    const auto found = stragglers_.ranks().find(worker.rank);
    if (found == stragglers_.ranks().end()) continue;
    worker.came_last = found->second.came_last;
    worker.late_s = to_seconds(found->second.late);
  }
}

std::string StragglerWatch::sentence(TimePoint now) const {
  const auto worst = stragglers_.worst(now);
  return worst ? describe(*worst) : "";
}

void StragglerWatch::look(TimePoint now, const JobStatus& status, const std::vector<WorkerLook>& workers) {
  if (status.state != "running") return;
  if (std::exchange(round_, status.round) != status.round) stragglers_.begin_round(now);
  std::vector<WorkerRecord> records;
  for (const WorkerLook& worker : workers) {
    if (worker.record) records.push_back(*worker.record);
  }
  stragglers_.look(now, records);
  const auto note = stragglers_.take_note(now);
  if (!note) return;
  const auto worker = std::ranges::find(status.workers, note->rank, &WorkerStatus::rank);
  const std::string place = worker == status.workers.end()
                                ? ""
                                : " (pid " + std::to_string(worker->pid) + " on host " + status.host + ")";
  on_log_({Severity::warning, describe(*note) + "; dlaunch dump " + status.job + " there shows what rank " +
                                  std::to_string(note->rank) + place + " does"});
}

}  // namespace dlaunch::agent
