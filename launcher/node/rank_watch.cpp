#include "launcher/node/rank_watch.h"

#include <cstdint>
#include <utility>

#include "agent/observe/process_condition.h"

namespace dlaunch::launcher {
namespace {

agent::ProcKey key_of(const agent::JobStatus& status, const agent::WorkerStatus& worker) {
  return {static_cast<std::uint32_t>(status.round), static_cast<std::uint32_t>(worker.local_rank)};
}

Duration in_seconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

RankWatch::RankWatch(Dependencies dependencies, Config config)
    : dependencies_(dependencies),
      status_(config.status),
      stragglers_(std::move(config.report_arrivals)),
      times_(config.slots, dependencies.clock.now()),
      looks_({dependencies.clock, dependencies.timers},
             {agent::Stragglers::look_period(config.window), std::move(config.pages_dir),
              std::move(config.status),
              [this](TimePoint now, const agent::JobStatus& status,
                     const std::vector<agent::WorkerLook>& looks) { take(now, status, looks); }}) {}

void RankWatch::take(TimePoint now, const agent::JobStatus& status,
                     const std::vector<agent::WorkerLook>& looks) {
  if (!looks.empty() && std::exchange(round_, status.round) != status.round)
    history_.begin_round(now - in_seconds(status.state_age_s));
  history_.look(now, looks);
  times_.step(now, status, history_.times().seen());
  stragglers_.look(status, looks);
}

void RankWatch::add_to(agent::JobStatus& status) const {
  for (agent::WorkerStatus& worker : status.workers) {
    if (worker.state == "running" && agent::condition_of(worker.pid) == agent::Condition::stopped)
      worker.state = "stopped";
    worker.last_output = dependencies_.output.last_line(key_of(status, worker));
  }
  stragglers_.add_to(status);
}

agent::NodeRanks RankWatch::ranks(int rank_with_lines) const {
  agent::JobStatus status = status_();
  add_to(status);
  agent::NodeRanks node = agent::node_ranks(status, history_);
  agent::add_times(node, times_);
  node.period_s = to_seconds(looks_.period());
  for (std::size_t i = 0; i < node.ranks.size(); ++i) {
    if (node.ranks[i].rank == rank_with_lines)
      node.ranks[i].last_lines = dependencies_.output.recent_lines(key_of(status, status.workers.at(i)));
  }
  return node;
}

}  // namespace dlaunch::launcher
