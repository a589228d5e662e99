#include "agent/node/node_status.h"

#include <string_view>
#include <vector>

#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

std::string describe(WorkerGroup::Worker::State state) {
  switch (state) {
    case WorkerGroup::Worker::State::starting:
      return "starting";
    case WorkerGroup::Worker::State::alive:
      return "running";
    case WorkerGroup::Worker::State::ended:
      return "ended";
  }
  return "";
}

std::string describe_state(Member::State member, WorkerGroup::State group, bool done) {
  switch (member) {
    case Member::State::connecting:
    case Member::State::joined:
      return "waiting";
    case Member::State::leaving:
    case Member::State::ended:
      return "ending";
    case Member::State::working:
      break;
  }
  switch (group) {
    case WorkerGroup::State::idle:
      return done ? "done" : "waiting";  // while other nodes run; between two rounds
    case WorkerGroup::State::running:
    case WorkerGroup::State::leftovers:
      return "running";
    case WorkerGroup::State::stopping:
    case WorkerGroup::State::killing:
    case WorkerGroup::State::stuck:
      return "stopping";
  }
  return "";
}

std::string waiting_for(const NodeParts& p) {
  if (p.member.is_checking()) return "its health check";
  if (p.member.state() == Member::State::connecting) {
    if (p.job.elected) return "a leader, elected at etcd (" + to_string(p.job.master) + ")";
    return (p.job.may_move() ? "a coordinator at " : "node 0 at ") + to_string(p.job.master) +
           (p.job.may_move() ? " or another endpoint" : "") +
           (p.member.last_refusal().empty() ? "" : ": " + p.member.last_refusal());
  }
  const bool leads = p.coordinator != nullptr && p.coordinator->state() != Coordinator::State::standby;
  if (leads) return p.coordinator->waiting_for(p.now);
  constexpr std::string_view told = "waiting for ";
  if (p.member.last_notice().starts_with(told)) return p.member.last_notice().substr(told.size());
  if (p.member.state() == Member::State::joined) return "the other nodes";
  return "";
}

void add_workers(const NodeParts& p, JobStatus& status) {
  const WorldMember* own = p.world.member(p.node.agent);
  if (own == nullptr) return;
  for (const WorkerGroup::Worker& worker : p.group.workers()) {
    const int local_rank = static_cast<int>(status.workers.size());
    status.workers.push_back(
        {own->base_rank + local_rank, local_rank, worker.pid, describe(worker.state), ""});
  }
}

JobStatus without_workers(const NodeParts& p) {
  JobStatus status;
  status.job = p.job.id;
  status.program = join(p.node.command, " ");
  status.version = p.build;
  status.host = p.node.host;
  const WorldMember* own = p.world.member(p.node.agent);
  status.node_rank = own != nullptr ? own->node_rank : p.node.node_rank;
  status.nnodes = p.job.nnodes;
  status.state = describe_state(p.member.state(), p.group.state(), p.round_done);
  status.waiting_for = waiting_for(p);
  status.round = static_cast<int>(p.world.round);
  status.world_size = p.world.world_size;
  status.restarts_used = p.world.restarts_used;
  status.max_restarts = p.job.max_restarts;
  status.age_s = to_seconds(p.now - p.began);
  status.state_age_s = to_seconds(p.now - p.round_began);
  status.endpoint = to_string(p.job.master);
  status.last_failure = p.member.last_failure();
  status.unnoticed_s = to_seconds(p.member.unnoticed());
  status.steady_ns = p.now.time_since_epoch().count();
  if (const auto clock = p.member.shared_clock(p.now)) status.clock = *clock;
  return status;
}

}  // namespace

JobStatus node_status(const NodeParts& parts) {
  JobStatus status = without_workers(parts);
  if (parts.group.active()) add_workers(parts, status);
  return status;
}

JobStatus last_node_status(const NodeParts& parts) {
  JobStatus status = without_workers(parts);
  add_workers(parts, status);
  return status;
}

}  // namespace dlaunch::agent
