#include "agent/model/rank_history.h"

#include <algorithm>
#include <utility>

namespace dlaunch::agent {

void RankHistory::look(TimePoint now, const std::vector<WorkerLook>& workers) {
  times_.look(now, workers);
  for (const WorkerLook& worker : workers) samples_.try_emplace(worker.rank, length_, absent);
  for (auto& [rank, samples] : samples_) {
    const auto found = times_.latest().find(rank);
    const bool ran = found != times_.latest().end();
    samples += ran ? letters.at(static_cast<std::size_t>(found->second.longest())) : absent;
    if (samples.size() > most_samples) samples.erase(0, samples.size() - most_samples);
  }
  length_ = std::min(length_ + 1, most_samples);
  // A rank of an earlier, larger world.
  std::erase_if(samples_,
                [](const auto& one) { return one.second.find_first_not_of(absent) == std::string::npos; });

  const double passed = to_seconds(now - looked_);
  std::map<int, Count> counts;
  for (const WorkerLook& worker : workers) {
    if (!worker.record) continue;
    Count count{worker.pid, worker.record->activity.moves, 0};
    const auto before = counts_.find(worker.rank);
    const bool is_same = before != counts_.end() && before->second.pid == worker.pid;
    constexpr double moves_of_operation = 2;  // it begins, and it ends
    if (is_same && passed > 0 && count.moves >= before->second.moves)
      count.rate = static_cast<double>(count.moves - before->second.moves) / moves_of_operation / passed;
    counts[worker.rank] = count;
  }
  counts_ = std::move(counts);
  last_look_ = workers;
  looked_ = now;
}

double RankHistory::rate(int rank) const {
  const auto found = counts_.find(rank);
  return found == counts_.end() ? 0 : found->second.rate;
}

}  // namespace dlaunch::agent
