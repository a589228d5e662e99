#include "agent/coordinator.h"

#include <algorithm>
#include <set>

#include "agent/placement.h"

namespace dlaunch::agent {
namespace {

constexpr MemberId local_member = 0;

std::string count_of(int n, const char* thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace

Coordinator::Coordinator(JobSpec job, TimePoint now)
    : job_(std::move(job)), began_(now), join_deadline_(now + job_.join_timeout) {
  world_.store = job_.master;
}

CoordinatorActions Coordinator::begin() {
  return {ArmCoordinatorTimer{std::min(began_ + first_report, join_deadline_)}};
}

CoordinatorActions Coordinator::step(TimePoint now, const CoordinatorEvent& event) {
  CoordinatorActions out;
  if (state_ == State::ended) return out;
  if (const auto* lost = std::get_if<MemberLost>(&event)) {
    on_lost(now, *lost, out);
  } else if (std::holds_alternative<CoordinatorTimer>(event)) {
    on_timer(now, out);
  } else {
    const auto& [member, message] = std::get<FromMember>(event);
    if (const auto* join = std::get_if<Join>(&message)) {
      on_join(now, member, *join, out);
    } else if (!nodes_.contains(member)) {
      refuse(member, "a Join must come first", out);
    } else if (const auto* failed = std::get_if<Failed>(&message)) {
      on_failed(now, *failed, out);
    } else if (const auto* done = std::get_if<Done>(&message)) {
      on_done(now, member, *done, out);
    } else if (const auto* stopped = std::get_if<Stopped>(&message)) {
      on_stopped(now, member, *stopped, out);
    } else if (const auto* leave = std::get_if<Leave>(&message)) {
      end_the_job_by(now, leave->failure, out);
    } else {
      refuse(member, "only a coordinator may say that", out);
    }
  }
  return out;
}

void Coordinator::on_join(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out) {
  const std::string why = nodes_.contains(member) ? "it has joined already" : reason_to_refuse(join);
  if (!why.empty()) {
    out.emplace_back(Say{Loudness::trouble, "refused node " + std::to_string(join.node_rank) + " (host " +
                                                join.host + "): " + why});
    refuse(member, why, out);
    return;
  }
  nodes_[member].joined = join;
  out.emplace_back(Say{Loudness::detail, "node " + std::to_string(join.node_rank) + " (host " + join.host +
                                             ") joined with " + count_of(join.slots, "worker") + ": " +
                                             std::to_string(nodes_.size()) + " of " +
                                             std::to_string(job_.nnodes)});
  if (static_cast<int>(nodes_.size()) == job_.nnodes) announce_world(now, out);
}

void Coordinator::on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out) {
  const bool of_this_round = failed.failure.round == world_.round;
  const bool wanted = state_ == State::running || state_ == State::restarting || state_ == State::collecting;
  if (!of_this_round || !wanted || !fallen_ranks_.insert(failed.failure.rank).second) return;
  record(now - std::clamp(failed.age, Duration(0), now - round_began_), failed.failure);
  if (state_ != State::running) return;
  stop_round(failed.failure, out);
  if (world_.restarts_used < job_.max_restarts) {
    state_ = State::restarting;
    end_deadline_ = now + job_.stop_timeout + end_margin;
    out.emplace_back(ArmCoordinatorTimer{end_deadline_});
  } else {
    collect(now, out);
  }
}

void Coordinator::on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out) {
  if (done.round != world_.round) return;
  if (state_ != State::running) {
    on_stopped(now, member, Stopped{done.round},
               out);  // too late to count as done, but nothing is left there
    return;
  }
  Node& node = nodes_[member];
  node.done = true;
  node.stopped = true;
  if (!std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.second.done; })) return;
  Outcome outcome;
  end(now, outcome, out);
}

void Coordinator::on_stopped(TimePoint now, MemberId member, const Stopped& stopped,
                             CoordinatorActions& out) {
  if (stopped.round != world_.round) return;
  nodes_[member].stopped = true;
  go_on_when_all_stopped(now, out);
}

void Coordinator::on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out) {
  const auto found = nodes_.find(lost.member);
  if (found == nodes_.end()) return;
  const Join joined = found->second.joined;
  nodes_.erase(found);
  if (state_ == State::ending) {
    end_when_all_stopped(out);
    return;
  }
  if (state_ == State::gathering) {
    out.emplace_back(Say{Loudness::trouble, "node " + std::to_string(joined.node_rank) + " (host " +
                                                joined.host + ") is gone again: " + lost.why});
    return;
  }
  end_the_job_by(now, lost_node(joined, lost.why), out);
  go_on_when_all_stopped(now, out);
}

Failure Coordinator::lost_node(const Join& joined, std::string why) const {
  Failure failure;
  failure.kind = FailureKind::node_lost;
  failure.round = world_.round;
  failure.node_rank = joined.node_rank;
  failure.host = joined.host;
  failure.why = std::move(why);
  return failure;
}

void Coordinator::on_timer(TimePoint now, CoordinatorActions& out) {
  if (state_ == State::gathering) {
    if (now >= join_deadline_) {
      Failure failure;
      failure.kind = FailureKind::join;
      failure.why = "waited " + to_words(job_.join_timeout) + " for " + missing() + " of " +
                    std::to_string(job_.nnodes) + ", at " + to_string(job_.master) + ", in vain";
      end_the_job_by(now, failure, out);
      return;
    }
    out.emplace_back(Say{Loudness::progress, "waiting for " + missing() + " of " +
                                                 std::to_string(job_.nnodes) + " at " +
                                                 to_string(job_.master) + " since " + to_words(now - began_) +
                                                 ", until " + to_words(join_deadline_ - now) + " from now"});
    out.emplace_back(ArmCoordinatorTimer{std::min(now + next_report, join_deadline_)});
  } else if (state_ == State::restarting && now >= end_deadline_) {
    const auto mute =
        std::find_if(nodes_.begin(), nodes_.end(), [](const auto& n) { return !n.second.stopped; });
    end_the_job_by(now, lost_node(mute->second.joined, "it did not stop its workers in time"), out);
    end_failed(now, out);  // it had its time
  } else if (state_ == State::collecting && now >= collect_until_) {
    end_failed(now, out);
  } else if (state_ == State::ending && now >= end_deadline_) {
    for (const auto& [id, node] : nodes_) {
      if (node.stopped) continue;
      out.emplace_back(Say{Loudness::trouble, "node " + std::to_string(node.joined.node_rank) + " (host " +
                                                  node.joined.host +
                                                  ") did not say that it has stopped; going on without it"});
    }
    state_ = State::ended;
    out.emplace_back(CoordinatorEnded{});
  }
}

void Coordinator::refuse(MemberId member, std::string why, CoordinatorActions& out) const {
  out.emplace_back(ToMember{member, Refused{std::move(why)}});
  out.emplace_back(DropMember{member});
}

void Coordinator::announce_world(TimePoint now, CoordinatorActions& out) {
  std::vector<Join> joined;
  joined.reserve(nodes_.size());
  for (auto& [id, node] : nodes_) {
    node.done = false;
    node.stopped = false;
    joined.push_back(node.joined);
  }
  place(joined, world_);
  fallen_.clear();
  fallen_ranks_.clear();
  round_began_ = now;
  if (state_ == State::gathering) job_began_ = now;
  state_ = State::running;
  out.emplace_back(OpenStore{world_.round});
  for (const auto& [id, node] : nodes_) out.emplace_back(ToMember{id, NewWorld{world_}});
}

void Coordinator::restart(TimePoint now, CoordinatorActions& out) {
  const Fallen& root = fallen_[root_cause(fallen_)];
  ++world_.round;
  ++world_.restarts_used;
  out.emplace_back(Say{Loudness::progress, "restarting all " + count_of(world_.world_size, "worker") +
                                               " (restart " + std::to_string(world_.restarts_used) + " of " +
                                               std::to_string(job_.max_restarts) + ") because " +
                                               describe(root.failure)});
  if (restarts_.size() == static_cast<std::size_t>(Outcome::max_restarts)) restarts_.erase(restarts_.begin());
  restarts_.push_back({world_.restarts_used, root.when - job_began_, brief(root.failure)});
  announce_world(now, out);
}

void Coordinator::record(TimePoint when, const Failure& failure) {
  // The long texts are kept of those that may turn out to be the cause, but not of thousands.
  constexpr std::size_t in_full = 64;
  fallen_.push_back({when, fallen_.size() < in_full ? failure : brief(failure)});
}

void Coordinator::stop_round(const Failure& because, CoordinatorActions& out) {
  for (const auto& [id, node] : nodes_)
    out.emplace_back(ToMember{id, StopRound{world_.round, describe(because)}});
}

void Coordinator::collect(TimePoint now, CoordinatorActions& out) {
  state_ = State::collecting;
  collect_until_ = now + collecting_time;
  out.emplace_back(ArmCoordinatorTimer{collect_until_});
}

// A lost node or a signal is no failure that a restart could heal, so it is what ends the job; unless the job
// was ending already.
void Coordinator::end_the_job_by(TimePoint now, const Failure& cause, CoordinatorActions& out) {
  if (state_ == State::ending) return;
  const bool was_ending = state_ == State::collecting;
  if (was_ending && cause.kind == FailureKind::signal) return;
  record(now, cause);
  if (was_ending) return;
  decisive_ = fallen_.size() - 1;
  if (state_ == State::gathering) {
    end_failed(now, out);
    return;
  }
  if (state_ == State::running) stop_round(cause, out);
  collect(now, out);
}

void Coordinator::go_on_when_all_stopped(TimePoint now, CoordinatorActions& out) {
  if (state_ == State::ending) {
    end_when_all_stopped(out);
  } else if (!all_stopped()) {
    return;
  } else if (state_ == State::restarting) {
    restart(now, out);
  } else if (state_ == State::collecting) {
    end_failed(now, out);
  }
}

void Coordinator::end_failed(TimePoint now, CoordinatorActions& out) {
  const std::size_t cause = decisive_ ? *decisive_ : root_cause(fallen_);
  Outcome outcome;
  tell(std::move(fallen_), cause, outcome);
  fallen_.clear();
  end(now, std::move(outcome), out);
}

void Coordinator::end(TimePoint now, Outcome outcome, CoordinatorActions& out) {
  state_ = State::ending;
  end_deadline_ = now + job_.stop_timeout + end_margin;
  outcome.restarts_used = world_.restarts_used;
  outcome.restarts = restarts_;
  for (const auto& [id, node] : nodes_) out.emplace_back(ToMember{id, End{outcome}});
  out.emplace_back(ArmCoordinatorTimer{end_deadline_});
  end_when_all_stopped(out);
}

void Coordinator::end_when_all_stopped(CoordinatorActions& out) {
  // A remote node hangs up after it has heard the end and stopped: until then End may still be on its way.
  const bool remote_left =
      std::any_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.first != local_member; });
  if (remote_left || !all_stopped()) return;
  state_ = State::ended;
  out.emplace_back(CoordinatorEnded{});
}

std::string Coordinator::reason_to_refuse(const Join& join) const {
  if (state_ == State::ending) return "the job is ending";
  if (join.job_id != job_.id) return "this is job '" + job_.id + "', not '" + join.job_id + "'";
  if (join.nnodes != job_.nnodes) {
    return "this job has --nnodes=" + std::to_string(job_.nnodes) + ", not " + std::to_string(join.nnodes);
  }
  if (join.max_restarts != job_.max_restarts) {
    return "this job has --max-restarts=" + std::to_string(job_.max_restarts) + ", not " +
           std::to_string(join.max_restarts);
  }
  if (join.node_rank < 0 || join.node_rank >= job_.nnodes) {
    return "--node-rank=" + std::to_string(join.node_rank) +
           " is outside --nnodes=" + std::to_string(job_.nnodes);
  }
  if (join.slots < 1 || join.slots > max_slots)
    return std::to_string(join.slots) + " is no number of workers";
  for (const auto& [id, node] : nodes_) {
    if (node.joined.node_rank == join.node_rank) {
      return "--node-rank=" + std::to_string(join.node_rank) + " is taken by host " + node.joined.host;
    }
  }
  if (state_ != State::gathering) return "all nodes of the job are in";
  return "";
}

std::string Coordinator::missing() const {
  std::set<int> present;
  for (const auto& [id, node] : nodes_) present.insert(node.joined.node_rank);
  std::vector<int> absent;
  for (int i = 0; i < job_.nnodes; ++i) {
    if (!present.contains(i)) absent.push_back(i);
  }
  constexpr std::size_t shown = 8;
  std::string text = absent.size() == 1 ? "node " : "nodes ";
  for (std::size_t i = 0; i < std::min(absent.size(), shown); ++i) {
    if (i > 0) text += i + 1 == absent.size() ? " and " : ", ";
    text += std::to_string(absent[i]);
  }
  if (absent.size() > shown) text += " and " + std::to_string(absent.size() - shown) + " more";
  return text;
}

bool Coordinator::all_stopped() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.second.stopped; });
}

}  // namespace dlaunch::agent
