#include "agent/observe/straggler_watch.h"

#include <algorithm>

namespace dlaunch::agent {

void StragglerWatch::look(const JobStatus& status, const std::vector<WorkerLook>& workers) {
  if (status.state != "running") return;
  if (std::exchange(round_, status.round) != status.round) {
    arrivals_ = {};
    lateness_ = {};
  }
  std::vector<WorkerRecord> records;
  for (const WorkerLook& worker : workers) {
    if (worker.record) records.push_back(*worker.record);
  }
  Arrivals arrivals = arrivals_.look(records, status.clock);
  // While a straggler is known the node reports in any case: the answer shows when there is none any more.
  if (!arrivals.is_empty() || !lateness_.straggler.empty())
    report_(static_cast<std::uint32_t>(status.round), std::move(arrivals));
}

void StragglerWatch::add_to(JobStatus& status) const {
  if (status.round != round_ || status.state != "running") return;
  status.straggler = lateness_.straggler;
  for (WorkerStatus& worker : status.workers) {
    const auto found = std::ranges::find(lateness_.ranks, worker.rank, &LateRank::rank);
    if (found == lateness_.ranks.end()) continue;
    worker.came_last = found->came_last;
    worker.late_s = to_seconds(found->late);
  }
}

}  // namespace dlaunch::agent
