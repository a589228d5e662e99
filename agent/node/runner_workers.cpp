// What a Runner reports of this node and its workers: the status, what their pages show, and what they look
// like from outside.
#include <cstddef>
#include <utility>

#include "agent/node/runner.h"

namespace dlaunch::agent {

void Runner::look_at_workers(bool in_full) {
  WorkersSeen seen;
  if (config_.records != nullptr)
    seen.activity = config_.records->activity(current_.round, config_.node.slots);
  // Workers with pages are judged by these, and looking at all processes takes time.
  const bool has_pages = seen.activity.pages > 0;
  if (!has_pages && config_.worker_usage && current_.member(config_.node.agent) != nullptr)
    seen.usage = config_.worker_usage(workers_here());
  if (in_full) seen.group_progress = at_failure_ ? *at_failure_ : group_progress();
  post(MemberEvent{std::move(seen)});
}

void Runner::request_stack(int rank) {
  const WorldMember* own = current_.member(config_.node.agent);
  if (config_.records == nullptr || own == nullptr) return;
  const int local_rank = rank - own->base_rank;
  if (local_rank < 0 || local_rank >= config_.node.slots) return;
  config_.records->request_stack(current_.round, static_cast<std::uint32_t>(local_rank),
                                 dependencies_.clock.now());
}

void Runner::inspect_workers() {
  if (config_.inspect) return config_.inspect(current_.round, current_.world_size, workers_here());
  post(MemberEvent{WorkersInspected{{current_.round, {}}}});
}

void Runner::on_inspected(std::uint32_t round, std::vector<GroupProgress> groups) {
  post(MemberEvent{WorkersInspected{{round, std::move(groups)}}});
  work();
}

void Runner::report_arrivals(std::uint32_t round, Arrivals arrivals) {
  post(MemberEvent{ArrivalsReport{round, std::move(arrivals)}});
  work();
}

// REQUIRES: this node is in the world.
std::vector<WorkerHere> Runner::workers_here() const {
  const WorldMember& own = *current_.member(config_.node.agent);
  std::vector<WorkerHere> workers;
  for (const WorkerGroup::Worker& worker : group_.workers()) {
    const auto local_rank = static_cast<std::uint32_t>(workers.size());
    workers.push_back({local_rank, own.base_rank + static_cast<int>(local_rank), worker.pid});
  }
  return workers;
}

std::vector<GroupProgress> Runner::group_progress() const {
  const WorldMember* own = current_.member(config_.node.agent);
  if (config_.records == nullptr || own == nullptr) return {};
  std::vector<GroupProgress> groups = config_.records->group_progress(
      current_.round, workers_here(), current_.world_size, dependencies_.clock.now());
  for (GroupProgress& group : groups) {
    for (RankProgress& rank : group.here) {
      const auto local_rank = static_cast<std::size_t>(rank.rank - own->base_rank);
      if (local_rank >= group_.workers().size()) continue;
      rank.how_ended = group_.workers()[local_rank].how_ended;
      if (!rank.how_ended.empty()) rank.condition = Condition::ended;
    }
  }
  return groups;
}

NodeParts Runner::parts() const {
  return {config_.job,
          config_.node,
          config_.build,
          current_,
          member_,
          group_,
          coordinator_ ? &*coordinator_ : nullptr,
          began_,
          round_began_,
          round_done_,
          dependencies_.clock.now()};
}

JobStatus Runner::status() const { return node_status(parts()); }

// Before the Done or Stopped that follows.
void Runner::report_times() {
  if (config_.node_times) post(MemberEvent{TimesReport{config_.node_times(last_node_status(parts()))}});
}

}  // namespace dlaunch::agent
