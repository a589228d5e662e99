#include "agent/control/coordinator.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "agent/control/loss_text.h"
#include "agent/control/one_of.h"
#include "agent/model/job_rules.h"
#include "agent/model/last_lines.h"
#include "agent/model/restart_policy.h"
#include "store/base/overloaded.h"
#include "store/base/pluralize.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

// No job comes near; so that none can be made to overflow.
constexpr std::uint32_t last_round = 1U << 30;

World without_members(World world) {
  world.members.clear();
  return world;
}

}  // namespace

Coordinator::Coordinator(JobSpec job, Address own, AgentId agent, TimePoint now, std::int64_t unix_us)
    : job_(std::move(job)),
      rules_(rules_of(job_)),
      leases_(job_.node_timeout),
      agent_(agent),
      state_(job_.may_move() ? State::standby : State::gathering),
      fencing_(unix_us, now),
      began_(now),
      waiting_since_(now),
      join_deadline_(now + job_.join_timeout),
      report_at_(now + first_report),
      enough_(job_.nnodes),
      patience_(job_.last_call),
      hang_detector_(job_.hang_timeout) {
  world_.store = std::move(own);
  world_.leader = agent_;
}

CoordinatorActions Coordinator::begin() {
  CoordinatorActions out;
  rearm(waiting_since_, out);
  return out;
}

CoordinatorActions Coordinator::step(TimePoint now, const CoordinatorEvent& event) {
  CoordinatorActions out;
  if (state_ == State::ended) {
    // Another may lead; whoever still comes here shall look for that one.
    if (const auto* from = std::get_if<FromMember>(&event); from != nullptr && from->member != local_member)
      out.emplace_back(DropMember{from->member});
    return out;
  }
  suspension_.look(now, armed_, job_.node_timeout);
  std::visit(Overloaded{[&](const FromMember& from) { on_message(now, from, out); },
                        [&](const MemberLost& lost) { on_lost(now, lost, out); },
                        [&](const CoordinatorTimer&) { on_timer(now, out); },
                        [&](const AgentLeaves& leaves) { on_agent_leaves(now, leaves.failure, out); },
                        [&](const AgentRefused& refused) { remember_refusal(refused.peer, refused.why); },
                        [&](const FollowsAnother& follows) { follows_another_ = follows.yes; },
                        [&](const LeadsUntil& leads) { on_election(now, leads, out); }},
             event);
  rearm(now, out);
  return out;
}

void Coordinator::on_message(TimePoint now, const FromMember& from, CoordinatorActions& out) {
  const MemberId member = from.member;
  const bool may_come_first =
      std::holds_alternative<Join>(from.message) || std::holds_alternative<Ask>(from.message);
  if (!may_come_first) {
    Membership::Node* node = membership_.find(member);
    if (node == nullptr) {
      refuse(member, "a Join must come first", out);
      return;
    }
    node->last_heard = now;
  }
  std::visit(Overloaded{[&](const Join& join) { on_join(now, member, join, from.address, out); },
                        [&](const Ask& ask) { on_ask(now, member, ask, out); },
                        [&](const Failed& failed) { on_failed(now, failed, out); },
                        [&](const Done& done) { on_done(now, member, done, out); },
                        [&](const Stopped& stopped) { on_stopped(now, member, stopped, out); },
                        [&](const Leave& leave) { on_leave(now, member, leave, out); },
                        [&](const Heartbeat& heartbeat) { on_heartbeat(now, member, heartbeat, out); },
                        [&](const Progress& progress) { on_progress(now, member, progress, out); },
                        [&](const Preempt& preempt) { on_preempt(member, preempt, out); },
                        [&](const OneOf<Welcome, Refused, NewWorld, StopRound, End, Notice, RestartHistory,
                                        Hello, Challenge, Proof> auto&) {
                          refuse(member, "only a coordinator may say that", out);
                        }},
             from.message);
}

// Answers are not answered again: a Welcome is, and each beat of the member's own is, with the next.
void Coordinator::on_heartbeat(TimePoint now, MemberId member, const Heartbeat& heartbeat,
                               CoordinatorActions& out) {
  Membership::Node& node = *membership_.find(member);
  const TimePoint said{Duration(heartbeat.stamp)};
  if (said <= now) node.echoed = std::max(node.echoed, said);
  node.own = heartbeat.own;
  out.emplace_back(ToMember{member, Heartbeat{stamp_of(now), 0, grant_to(now, node)}});
  announce_when_complete(now, out);  // where only that was missing
}

// --- who comes ---

void Coordinator::on_join(TimePoint now, MemberId member, Join join, const std::string& address,
                          CoordinatorActions& out) {
  join.host = shortened(sanitize_for_terminal(join.host), longest_host);
  if (membership_.find(member) != nullptr) {
    refuse(member, "it has joined already", out);
    return;
  }
  const bool missed_the_end = state_ == State::ending && join.joined_once && join.job_id == job_.id;
  if (missed_the_end) {
    out.emplace_back(ToMember{member, End{outcome_.value()}});
    out.emplace_back(DropMember{member});
  }
  // A node that comes back has noticed the end of its connection before we have.
  if (const auto before = membership_.of_agent(join.agent); join.agent != 0 && before) {
    out.emplace_back(DropMember{*before});
    on_lost(now, {*before, "it came back by a new connection"}, out);
  }
  if (missed_the_end) return;
  absent_.remove(join.agent);
  left_running_.erase(join.agent);  // it says itself when its workers are gone
  if (const std::string why = reason_to_refuse(join); !why.empty()) {
    const std::string peer = join.node_rank < 0 ? "a node" : "node " + std::to_string(join.node_rank);
    out.emplace_back(LogMessage{Severity::warning, "refused " + peer + " (host " + join.host + "): " + why});
    remember_refusal("host " + join.host, why);
    refuse(member, why, out);
    return;
  }
  if (!join.unfit.empty()) return on_unfit(now, member, join, out);
  if (std::string why = reason_to_wait(now, member, join); !why.empty()) {
    refuse(member, std::move(why), out, false);
    return;
  }
  learn_fencing(member, join);
  const Membership::Node& node = membership_.add(member, join, address, now);
  granting_until_.reset();
  if (member != local_member && job_.node_timeout > Duration(0) && !check_at_)
    check_at_ = now + job_.heartbeat_interval();
  if (state_ != State::standby) out.emplace_back(event_of(EventKind::joined, node, ""));
  out.emplace_back(LogMessage{
      Severity::debug, name_of(node) + " joined with " + pluralize(join.slots, "worker") + ": " +
                           std::to_string(membership_.ready()) + " of " + std::to_string(job_.nnodes)});
  if (state_ == State::standby) {
    out.emplace_back(ToMember{member, welcome(now, node, false, follows_another_)});
    lead_if_enough(now, out);
    return;
  }
  learn_from(now, join);
  if (formed_ && !join.joined_once) out.emplace_back(ToMember{member, NewWorld{without_members(world_), {}}});
  out.emplace_back(ToMember{member, welcome(now, node, true, was_superseded(node))});
  if (state_ == State::gathering) {
    announce_when_complete(now, out);
  } else if (node.stopped) {  // otherwise once it is
    take_in(now, node, out);
  }
}

// Where the job needs every node, nothing is waited for any longer.
void Coordinator::on_unfit(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out) {
  constexpr std::size_t longest = 500;
  const std::string why = shortened(sanitize_for_terminal(join.unfit), longest);
  Failure failure;
  failure.kind = FailureKind::join;
  failure.node_rank = join.node_rank;
  failure.host = join.host;
  failure.why =
      (join.node_rank < 0 ? "host " + join.host
                          : "node " + std::to_string(join.node_rank) + " (host " + join.host + ")") +
      ": " + why;
  refuse(member, why, out);
  if (state_ == State::gathering && !formed_ && !job_.elastic()) {
    end_the_job_by(now, failure, out);
  } else {
    out.emplace_back(LogMessage{Severity::warning, failure.why});
    remember_refusal("host " + join.host, why);
  }
}

// A node that has come while a world runs.
void Coordinator::take_in(TimePoint now, const Membership::Node& node, CoordinatorActions& out) {
  if (state_ != State::running) return;
  if (world_.nodes < job_.nnodes && !membership_.any_done()) {
    stop_world(now, name_of(node) + " came", out);
    out.emplace_back(
        LogMessage{Severity::info, name_of(node) + " came: forming a new world of " +
                                       pluralize(std::min(membership_.ready(), job_.nnodes), "node")});
  } else {
    out.emplace_back(LogMessage{Severity::info, name_of(node) + " waits as a spare"});
  }
}

std::string Coordinator::reason_to_refuse(const Join& join) const {
  if (state_ == State::ending) return "the job is ending";
  if (join.job_id != job_.id) return "this is job '" + job_.id + "', not '" + join.job_id + "'";
  if (join.nnodes != job_.nnodes) {
    return "this job has --nnodes=" + std::to_string(job_.nnodes) + ", not " + std::to_string(join.nnodes);
  }
  if (join.min_nodes != job_.required_nodes()) {
    return "this job needs at least " + pluralize(job_.required_nodes(), "node") + ", not " +
           std::to_string(join.min_nodes);
  }
  if (join.max_restarts != job_.max_restarts) {
    return "this job has --max-restarts=" + std::to_string(job_.max_restarts) + ", not " +
           std::to_string(join.max_restarts);
  }
  if (std::string other = difference(rules_, join.rules); !other.empty()) return sanitize_for_terminal(other);
  if (join.role.size() > longest_role)
    return "its --role is longer than " + std::to_string(longest_role) + " bytes";
  if (join.round > last_round) return "there is no round " + std::to_string(join.round);
  if (join.node_rank >= job_.nnodes) {
    return "--node-rank=" + std::to_string(join.node_rank) +
           " is outside --nnodes=" + std::to_string(job_.nnodes);
  }
  if (join.slots < 1 || join.slots > max_slots)
    return std::to_string(join.slots) + " is no number of workers";
  const int failures = failures_of(join.host, world_.restarts);
  const bool needed = join.joined_once || membership_.ready() < fewest();
  if (job_.policy.exclude_after > 0 && failures >= job_.policy.exclude_after && !needed) {
    return "host " + join.host + " is left out: it failed " + pluralize(failures, "time") +
           " (--exclude-after)";
  }
  // Where nodes are replaced, the one that comes may know of the other's end before we do.
  const auto taken =
      join.node_rank < 0 || job_.elastic() ? std::nullopt : membership_.of_rank(join.node_rank);
  if (taken) {
    return "--node-rank=" + std::to_string(join.node_rank) + " is taken by host " +
           membership_.nodes().at(*taken).joined.host;
  }
  const bool forming = state_ == State::gathering || state_ == State::standby;
  if (!forming && !job_.elastic()) return "all nodes of the job are in";
  if (membership_.nodes().size() >= static_cast<std::size_t>(max_nodes)) return "there are too many nodes";
  return "";
}

// Another time it may be taken.
std::string Coordinator::reason_to_wait(TimePoint now, MemberId member, const Join& join) const {
  // One of those that are here may be lost already, and this one its successor.
  if (by_majority() && membership_.ready() >= job_.nnodes + job_.spares) {
    return "this job has its " + pluralize(job_.nnodes, "node") +
           (job_.spares > 0 ? " and " + pluralize(job_.spares, "spare") : "");
  }
  if (!fencing_.believes(now, join.fencing, member == local_member)) {
    return "it knows the fencing token " + std::to_string(join.fencing) +
           ", more than a day ahead of this node's clock; set the clocks of all nodes to the same time";
  }
  return "";
}

void Coordinator::refuse(MemberId member, std::string why, CoordinatorActions& out, bool for_good) const {
  out.emplace_back(ToMember{member, Refused{std::move(why), for_good}});
  out.emplace_back(DropMember{member});
}

// --- from one world to the next ---

void Coordinator::gather(TimePoint now, int enough, Duration patience, CoordinatorActions& out) {
  state_ = State::gathering;
  fencing_deadline_.reset();
  waiting_since_ = now;
  join_deadline_ = now + job_.join_timeout;
  report_at_ = now + first_report;
  enough_ = enough;
  patience_ = patience;
  last_call_.reset();
  announce_when_complete(now, out);
}

void Coordinator::announce_when_complete(TimePoint now, CoordinatorActions& out) {
  if (state_ != State::gathering) return;
  const int ready = membership_.ready();
  if (ready < job_.required_nodes()) {
    last_call_.reset();
    return;
  }
  TimePoint when = may_begin_at();
  if (ready < enough_) {
    if (!last_call_) {
      last_call_ = now + patience_;
      if (!formed_) {
        out.emplace_back(LogMessage{
            Severity::info, pluralize(ready, "node") + " of at most " + std::to_string(job_.nnodes) + " " +
                                (ready == 1 ? "is" : "are") + " here, which is enough; waiting " +
                                to_words(patience_) + " for more"});
      }
    }
    when = std::max(when, *last_call_);
  }
  // Who came before we led may be on its way to another endpoint, its end here not heard of yet.
  const bool all_follow = !leading_since_ || membership_.all_have_answered(*leading_since_);
  const bool may_begin = now >= when && membership_.all_stopped() && all_follow && sure_to_lead(now);
  if (may_begin && has_fencing(now, out)) announce_world(now, out);
}

void Coordinator::announce_world(TimePoint now, CoordinatorActions& out) {
  membership_.choose(job_.nnodes, world_);
  world_.round = next_round_++;
  world_.fencing = fencing_.next();
  failures_.clear();
  suspects_.clear();
  failed_ranks_.clear();
  hang_detector_.begin();
  final_cause_.reset();
  blamed_until_.reset();
  preempted_.reset();
  last_call_.reset();
  left_running_.clear();
  announced_ = true;
  refusals_.clear();
  round_began_ = now;
  if (!std::exchange(formed_, true)) job_began_ = now;
  world_.age = now - job_began_;
  state_ = State::running;
  out.emplace_back(OpenStore{world_.round, fenced_hosts_.without(membership_, now)});
  Event formed{EventKind::world, world_.round};
  formed.nodes = world_.nodes;
  formed.world_size = world_.world_size;
  out.emplace_back(std::move(formed));
  World copy = without_members(world_);
  std::size_t spares = 0;
  for (const auto& [member, node] : membership_.nodes()) {
    copy.members.clear();
    if (member == local_member) {
      copy.members = world_.members;
    } else if (node.active) {
      copy.members.push_back(world_.members[static_cast<std::size_t>(node.index)]);
    }
    spares += node.active || node.leaving ? 0 : 1;
    out.emplace_back(ToMember{member, NewWorld{copy, grant_to(now, node)}});
  }
  if (spares > 0)
    out.emplace_back(LogMessage{Severity::info, pluralize(static_cast<int>(spares), "node") +
                                                    " beyond these " + std::to_string(world_.nodes) +
                                                    " as spares"});
}

void Coordinator::stop_world(TimePoint now, const std::string& why, CoordinatorActions& out) {
  state_ = State::stopping;
  blamed_until_.reset();
  stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  waiting_since_ = now;
  report_at_ = now + first_report;
  for (const auto& [member, node] : membership_.nodes()) {
    const bool has_stopped = node.stopped && !node.done;
    if (node.active && !node.leaving && !has_stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, why}});
  }
}

// The workers had until then to end by themselves.
void Coordinator::enforce_fencing(TimePoint now, CoordinatorActions& out) {
  if (!fencing_deadline_ || now < *fencing_deadline_) return;
  fencing_deadline_ = TimePoint::max();
  for (const auto& [member, node] : membership_.nodes()) {
    if (node.active && !node.stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, "another node may lead the job now", true}});
  }
}

void Coordinator::go_on_when_all_stopped(TimePoint now, CoordinatorActions& out) {
  if (state_ == State::running && blamed_until_ && membership_.all_stopped())
    stop_for(now, failures_.front().failure, out);  // no worker is left to be waited for
  if (state_ == State::ending) {
    end_when_all_stopped(now, out);
  } else if (state_ == State::gathering) {
    announce_when_complete(now, out);
  } else if (!membership_.all_stopped()) {
    return;
  } else if (resigning_) {
    resign(out);
  } else if (state_ == State::stopping) {
    go_on(now, out);
  } else if (state_ == State::collecting) {
    end_failed(now, out);
  }
}

// Nothing of the last round is left.
void Coordinator::go_on(TimePoint now, CoordinatorActions& out) {
  if (!failures_.empty()) {
    const TimedFailure root = failures_[find_cause()];
    const bool of_node =
        root.failure.kind == FailureKind::node_lost || root.failure.kind == FailureKind::health;
    const bool counts = !of_node || job_.counts_membership;
    const Restart entry{world_.restarts_used + (counts ? 1 : 0), root.when - job_began_, brief(root.failure),
                        root.when - round_began_, counts};
    RestartDecision decision =
        decide_restart(job_.policy, job_.max_restarts, world_.restarts_used, world_.restarts, entry);
    if (!decision.restarts) {
      no_restart_ = std::move(decision.why_not);
      return end_failed(now, out);
    }
    if (root.failure.kind != FailureKind::hang) {  // which has told it already
      for (std::string& sentence : hang_detector_.diagnosis().sentences)
        out.emplace_back(LogMessage{Severity::info, std::move(sentence)});
    }
    for (std::string& lines : last_lines_of(root.failure))
      out.emplace_back(LogMessage{Severity::info, std::move(lines)});
    record_restart(entry, decision.delay, out);
    not_before_ = std::max(not_before_, now + decision.delay);
    leave_out(root.failure, out);
  }
  const int ready = membership_.ready();
  if (too_few()) return lose_leadership(now, out);
  const bool enough = ready >= job_.required_nodes();
  gather(now, enough ? job_.required_nodes() : world_.nodes, job_.last_call, out);
  if (enough) return;
  out.emplace_back(LogMessage{
      Severity::info, "waiting for " + missing() + ", until " + to_words(job_.join_timeout) + " from now"});
}

void Coordinator::record_restart(const Restart& entry, Duration delay, CoordinatorActions& out) {
  remember(world_.restarts, entry);
  world_.restarts_used += entry.counted ? 1 : 0;
  if (job_.may_move()) {
    for (const auto& [member, node] : membership_.nodes())
      out.emplace_back(ToMember{member, RestartHistory{world_.restarts_used, world_.restarts}});
  }
  if (!entry.counted) return;
  Event restarted{EventKind::restarted, world_.round};
  restarted.number = world_.restarts_used;
  restarted.text = describe(entry.cause);
  out.emplace_back(std::move(restarted));
  const std::string later = delay > Duration(0) ? " in " + to_words(delay) : "";
  out.emplace_back(LogMessage{
      Severity::info, "restarting all " + pluralize(world_.world_size, "worker") + later + " (restart " +
                          std::to_string(world_.restarts_used) + " of " + std::to_string(job_.max_restarts) +
                          ") because " + describe(entry.cause)});
}

// A node that was the cause too often, where the others may do without it.
void Coordinator::leave_out(const Failure& cause, CoordinatorActions& out) {
  const int count = failures_of(cause.host, world_.restarts);
  if (job_.policy.exclude_after == 0 || count < job_.policy.exclude_after) return;
  for (auto& [member, node] : membership_.nodes()) {
    if (node.joined.host != cause.host || node.leaving) continue;
    const std::string why = "it failed " + pluralize(count, "time") + " (--exclude-after)";
    if (member == local_member || membership_.ready() - 1 < fewest()) {
      out.emplace_back(LogMessage{
          Severity::warning,
          name_of(node) + " should be left out, since " + why + ", but " +
              (member == local_member ? "it serves the endpoint" : "there are not enough others")});
      continue;
    }
    out.emplace_back(LogMessage{Severity::warning, "leaving out " + name_of(node) + ": " + why});
    out.emplace_back(event_of(EventKind::lost, node, why));
    node.leaving = true;
    Outcome outcome;
    outcome.failed = true;
    outcome.exit_code = exit_code_of(cause);
    outcome.cause = cause;
    outcome.no_restart = "this node is left out: " + why;
    outcome.restarts_used = world_.restarts_used;
    out.emplace_back(ToMember{member, End{outcome}});
  }
}

// Without so many the job cannot go on.
int Coordinator::fewest() const { return std::max(job_.required_nodes(), by_majority() ? quorum() : 0); }

// --- what nodes report ---

void Coordinator::on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out) {
  constexpr std::size_t most_suspects = 64;
  const bool of_this_round = failed.failure.round == world_.round;
  const bool wanted = state_ == State::running || state_ == State::stopping || state_ == State::collecting;
  if (!of_this_round || !wanted) return;
  if (is_suspect(failed.failure)) {
    if (suspects_.size() < most_suspects) suspects_.push_back(brief(failed.failure));
    return;
  }
  // To end was what its workers were asked for: that is no failure, and the node whose end it is leaves now.
  const Membership::Node* ending = preempted_ ? membership_.find(*preempted_) : nullptr;
  if (state_ == State::running && ending != nullptr && !ending->leaving)
    on_leave(now, *preempted_, Leave{stopped_by_signal(*ending)}, out);
  const bool lost = failed.failure.kind == FailureKind::node_lost;  // its workers, not its agent
  if (!lost && !failed_ranks_.insert(failed.failure.rank).second) return;
  // A world that is stopped because nodes came or went may well fail in doing so.
  if (state_ == State::stopping && failures_.empty()) return;
  record(now - std::clamp(failed.age, Duration(0), now - round_began_), failed.failure);
  if (state_ != State::running) return;
  if (failed.failure.blames_peer && may_still_end(failed.failure.blamed_rank)) {
    if (!blamed_until_) blamed_until_ = now + blamed_rank_grace;
  } else {
    stop_for(now, failed.failure, out);
  }
}

void Coordinator::stop_for(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  // A failure on this node has been said by it.
  const auto own = membership_.nodes().find(local_member);
  const bool is_here = own != membership_.nodes().end() && own->second.rank() == failure.node_rank;
  if (!is_here)
    out.emplace_back(LogMessage{
        Severity::info, describe(failure) + "; " + describe(job_.stop_timeout, "the workers of all nodes")});
  stop_world(now, describe(failure), out);
  const bool lost = failure.kind == FailureKind::node_lost;
  if (lost ? !may_go_on() : !restarts_left()) collect(now);
}

// One that is not known may be any of those that run.
bool Coordinator::may_still_end(int blamed_rank) const {
  if (failed_ranks_.contains(blamed_rank)) return false;
  return std::any_of(membership_.nodes().begin(), membership_.nodes().end(), [&](const auto& entry) {
    const Membership::Node& node = entry.second;
    if (node.index < 0 || node.done || node.stopped) return false;
    const WorldMember& there = world_.members[static_cast<std::size_t>(node.index)];
    return blamed_rank < 0 || (blamed_rank >= there.base_rank && blamed_rank < there.base_rank + there.slots);
  });
}

void Coordinator::on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out) {
  if (done.round != world_.round) return;
  if (state_ != State::running) {
    on_stopped(now, member, Stopped{done.round},
               out);  // too late to count as done, but nothing is left there
    return;
  }
  Membership::Node& node = *membership_.find(member);
  node.done = true;
  node.stopped = true;
  if (membership_.all_done()) end(now, Outcome{}, out);
}

void Coordinator::on_stopped(TimePoint now, MemberId member, const Stopped& stopped,
                             CoordinatorActions& out) {
  Membership::Node& node = *membership_.find(member);
  // Of one that joined while it was still stopping, the round is another leader's.
  if (node.active && stopped.round != world_.round) return;
  const bool came = !node.active && !node.stopped;
  node.stopped = true;
  if (came) take_in(now, node, out);
  go_on_when_all_stopped(now, out);
}

// One node will end: the workers of all are given notice, once in a round.
void Coordinator::on_preempt(MemberId member, const Preempt& preempt, CoordinatorActions& out) {
  const Membership::Node& ending = *membership_.find(member);
  if (preempt.round != world_.round || state_ != State::running || preempted_) return;
  if (!ending.active || ending.done) return;
  preempted_ = member;
  for (const auto& [other, node] : membership_.nodes()) {
    if (other != member && node.active && !node.done)
      out.emplace_back(ToMember{other, Preempt{world_.round, name_of(ending)}});
  }
}

// Where workers stand; and where none of them has moved for the limit, the job hangs.
void Coordinator::on_progress(TimePoint now, MemberId member, const Progress& progress,
                              CoordinatorActions& out) {
  if (progress.round != world_.round) return;
  hang_detector_.take(member, progress);
  if (state_ != State::running || !hang_detector_.hangs(membership_)) return;
  const Diagnosis diagnosis = hang_detector_.diagnosis();
  const Failure failure = hang_detector_.failure(diagnosis, world_);
  Event hung{EventKind::hung, world_.round, failure.node_rank, failure.host, failure.rank};
  hung.text = describe(failure);
  out.emplace_back(std::move(hung));
  out.emplace_back(LogMessage{Severity::warning, describe(failure)});
  for (std::size_t i = 1; i < diagnosis.sentences.size(); ++i)
    out.emplace_back(LogMessage{Severity::warning, diagnosis.sentences[i]});
  record(now, failure);
  stop_world(now, describe(failure), out);
  if (!restarts_left()) collect(now);
}

void Coordinator::on_leave(TimePoint now, MemberId member, const Leave& leave, CoordinatorActions& out) {
  Membership::Node& node = *membership_.find(member);
  const Failure& failure = leave.failure;
  if (failure.kind != FailureKind::signal) {
    if (may_go_on()) {
      node.leaving = true;
      on_node_lost(now, node, failure, out);
    } else {
      end_the_job_by(now, failure, out);
    }
    return;
  }
  Outcome outcome;
  outcome.failed = true;
  outcome.exit_code = exit_code_of(failure);
  outcome.cause = failure;
  outcome.restarts_used = world_.restarts_used;
  const bool needed = node.active && !node.done && membership_.ready() - 1 < job_.required_nodes();
  const bool waiting = state_ == State::gathering || state_ == State::standby;
  const bool decided = state_ == State::collecting || state_ == State::ending;
  if (member == local_member && job_.may_move() && !needed && !decided) {
    resigning_ = outcome;
    node.leaving = true;
    if (state_ == State::running) stop_world(now, name_of(node) + ", which leads, was told to leave", out);
    if (waiting || membership_.all_stopped()) resign(out);
    return;
  }
  const bool may_go = waiting || !node.active || (job_.elastic() && !needed);
  if (member == local_member || !may_go || state_ == State::collecting || state_ == State::ending) {
    end_the_job_by(now, failure, out);
    return;
  }
  out.emplace_back(LogMessage{Severity::info, name_of(node) + " leaves: " + describe(failure)});
  out.emplace_back(event_of(EventKind::left, node, describe(failure)));
  out.emplace_back(ToMember{member, End{outcome}});
  node.leaving = true;
  if (state_ == State::running && node.active && !node.done) stop_world(now, name_of(node) + " leaves", out);
  announce_when_complete(now, out);
}

void Coordinator::on_agent_leaves(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  const bool again = state_ == State::ending || state_ == State::collecting;
  if (job_.may_move() || again) {
    resign(out);
  } else {
    end_the_job_by(now, failure, out);
  }
}

void Coordinator::on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out) {
  const TimePoint sure = sure_until();
  const auto node = membership_.remove(lost.member);
  hang_detector_.forget(lost.member);
  granting_until_.reset();
  if (node) record_left_running(now, *node, lost.silent);
  if (node && lost.silent) absent_.add(node->joined.agent, name_of(*node), node->last_heard);
  if (!node || state_ == State::standby) return;
  const bool expected = node->leaving || node->done || state_ == State::ending;
  if (!expected && (state_ == State::gathering || !node->active)) {
    out.emplace_back(LogMessage{Severity::warning, name_of(*node) + " is gone again: " + lost.why});
    out.emplace_back(event_of(EventKind::left, *node, lost.why));
  } else if (!expected) {
    const Failure failure = disconnected(now, *node, describe_loss(lost.why, lost.silent, node->joined.host));
    if (may_go_on()) {
      on_node_lost(now, *node, failure, out);
    } else {
      end_the_job_by(now, failure, out);
    }
  }
  if (state_ == State::running && membership_.all_done()) {
    end(now, Outcome{}, out);
  } else if (state_ == State::running && too_few()) {
    stop_world(now, "fewer than a majority of the nodes are here", out);
  } else if (state_ == State::gathering && too_few()) {
    lose_leadership(now, out);
  }
  const bool runs = state_ == State::stopping || state_ == State::collecting;
  if (runs && too_few() && !fencing_deadline_) fencing_deadline_ = sure;
  go_on_when_all_stopped(now, out);
}

// The others form a new world, now or when enough have come.
void Coordinator::on_node_lost(TimePoint now, const Membership::Node& node, const Failure& failure,
                               CoordinatorActions& out) {
  record(now, failure);
  out.emplace_back(LogMessage{Severity::warning, describe(failure)});
  out.emplace_back(event_of(EventKind::lost, node, failure.why));
  const int ready = membership_.ready();
  if (ready >= job_.required_nodes()) {
    out.emplace_back(LogMessage{Severity::info, "going on without " + name_of(node) + ", with " +
                                                    pluralize(std::min(ready, job_.nnodes), "node")});
  }
  // Where the workers' failures were all that was known, and no restart was left for them, this explains
  // them.
  if (state_ == State::collecting && !final_cause_) {
    state_ = State::stopping;
    stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  } else if (state_ == State::running) {
    stop_world(now, describe(failure), out);
  }
}

// A node is gone; whether the others may form a new world, now or when another has come.
bool Coordinator::may_go_on() const {
  if (state_ == State::collecting && final_cause_) return false;
  return job_.elastic() && (!job_.counts_membership || restarts_left());
}

Failure Coordinator::stopped_by_signal(const Membership::Node& node) const {
  Failure failure = lost_node(node, "");
  failure.kind = FailureKind::signal;
  failure.status = {ExitStatus::How::signaled, SIGTERM, false};
  return failure;
}

// The connection to a node has ended. If this process did not run before, it was that node which gave this
// one up.
Failure Coordinator::disconnected(TimePoint now, const Membership::Node& node, const std::string& why) {
  Failure failure = lost_node(node, why);
  const std::string own = suspension_.describe(now);
  const Membership::Node* const here = membership_.find(local_member);
  if (own.empty() || here == nullptr) return failure;
  failure.why = own + ", and " + name_of(node) + " gave it up";
  failure.node_rank = here->rank();
  failure.host = here->joined.host;
  return failure;
}

Failure Coordinator::lost_node(const Membership::Node& node, std::string why) const {
  Failure failure;
  failure.kind = FailureKind::node_lost;
  failure.round = world_.round;
  failure.node_rank = node.rank();
  failure.host = node.joined.host;
  failure.why = std::move(why);
  return failure;
}

// --- time ---

void Coordinator::on_timer(TimePoint now, CoordinatorActions& out) {
  armed_.reset();
  if (check_at_ && now >= *check_at_) drop_silent_members(now, out);
  enforce_fencing(now, out);
  if (state_ == State::running && blamed_until_ && now >= *blamed_until_) {
    stop_for(now, failures_.front().failure, out);
  } else if (state_ == State::gathering) {
    announce_when_complete(now, out);
    if (state_ == State::gathering) end_after_join_timeout(now, out);
    if (state_ == State::gathering) report(now, out);
  } else if (state_ == State::stopping && now >= stop_deadline_) {
    std::vector<MemberId> mute;
    for (const auto& [member, node] : membership_.nodes()) {
      if (!node.stopped) mute.push_back(member);
    }
    for (const MemberId member : mute) {
      if (state_ != State::stopping) break;
      const Membership::Node node = *membership_.find(member);
      const Failure failure = lost_node(node, "it did not stop its workers in time");
      if (!may_go_on()) {
        end_the_job_by(now, failure, out);
        end_failed(now, out);  // it had its time
        return;
      }
      membership_.remove(member);
      granting_until_.reset();
      record_left_running(now, node, true);
      out.emplace_back(DropMember{member});
      on_node_lost(now, node, failure, out);
    }
    go_on_when_all_stopped(now, out);
  } else if (state_ == State::stopping || state_ == State::standby) {
    report(now, out);
  } else if (state_ == State::collecting && now >= collect_until_) {
    end_failed(now, out);
  } else if (state_ == State::ending) {
    on_timer_at_the_end(now, out);
  }
}

void Coordinator::drop_silent_members(TimePoint now, CoordinatorActions& out) {
  // Where it was this process that slept, what the nodes have said meanwhile is still to be read.
  const bool overslept = now - *check_at_ > job_.heartbeat_interval();
  check_at_ = now + job_.heartbeat_interval();
  if (overslept) return;
  std::vector<MemberId> silent;
  for (const auto& [member, node] : membership_.nodes()) {
    if (member != local_member && now - node.last_heard >= job_.node_timeout) silent.push_back(member);
  }
  for (const MemberId member : silent) {
    const Membership::Node* node = membership_.find(member);
    if (node == nullptr || state_ == State::ended) continue;
    const Duration quiet = now - node->last_heard;
    out.emplace_back(DropMember{member});
    on_lost(now, {member, "no sign of life for " + to_words(quiet), true}, out);
  }
}

void Coordinator::end_after_join_timeout(TimePoint now, CoordinatorActions& out) {
  if (now < join_deadline_ || membership_.ready() >= job_.required_nodes()) return;
  Failure failure;
  failure.kind = FailureKind::join;
  failure.why = missing() + " did not come to " + to_string(world_.store) + " within " +
                to_words(job_.join_timeout) + " (--join-timeout)";
  failure.why += refusals_.empty()
                     ? "; start dlaunch there, too, or see there why it does not reach this address"
                     : refused_meanwhile();
  end_the_job_by(now, failure, out);
}

// Everybody who waits is told for what: people look at any of the nodes.
void Coordinator::report(TimePoint now, CoordinatorActions& out) {
  if (now < report_at_) return;
  report_at_ = now + next_report;
  std::string what = waiting_for(now);
  if (what.empty()) return;
  std::string until;
  if (state_ == State::stopping || state_ == State::collecting) {
    until = to_words(stop_deadline_ - now);
  } else if (state_ == State::gathering && membership_.ready() < job_.required_nodes()) {
    until = to_words(join_deadline_ - now);
    what += " at " + to_string(world_.store);
  }
  const std::string text = "waiting for " + what + " since " + to_words(now - waiting_since_) +
                           (until.empty() ? "" : ", until " + until + " from now");
  out.emplace_back(LogMessage{Severity::info, text});
  for (const auto& [member, node] : membership_.nodes()) {
    if (member != local_member) out.emplace_back(ToMember{member, Notice{text}});
  }
}

void Coordinator::rearm(TimePoint now, CoordinatorActions& out) {
  std::optional<TimePoint> next;
  const auto wake = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (check_at_) wake(*check_at_);
  if (fencing_deadline_ && *fencing_deadline_ < TimePoint::max()) wake(std::max(*fencing_deadline_, now));
  switch (state_) {
    case State::gathering:
      wake(report_at_);
      if (now < join_deadline_) wake(join_deadline_);
      if (last_call_ && *last_call_ > now) wake(*last_call_);
      if (membership_.ready() >= job_.required_nodes()) {
        if (const TimePoint when = may_begin_at(); when > now) wake(when);
      }
      break;
    case State::stopping:
      wake(stop_deadline_);
      wake(report_at_);
      break;
    case State::collecting:
      wake(collect_until_);
      break;
    case State::ending:
      wake(answers_until_.value_or(end_deadline_));
      break;
    case State::standby:
      wake(report_at_);
      break;
    case State::running:
      if (blamed_until_) wake(*blamed_until_);
      break;
    case State::ended:
      break;
  }
  if (state_ == State::ended || !next || next == armed_) return;
  armed_ = next;
  out.emplace_back(ArmCoordinatorTimer{*next});
}

// --- from the first failure to the end ---

void Coordinator::record(TimePoint when, const Failure& failure) {
  // The long texts are kept of those that may turn out to be the cause, but not of thousands.
  constexpr std::size_t in_full = 64;
  failures_.push_back({when, failures_.size() < in_full ? failure : brief(failure)});
  if (failure.kind == FailureKind::worker)
    hang_detector_.note_end(failure.rank, describe_briefly(failure.status));
}

void Coordinator::collect(TimePoint now) {
  state_ = State::collecting;
  collect_until_ = now + collecting_time;
}

// What no restart could heal is what ends the job; unless the job was ending already.
void Coordinator::end_the_job_by(TimePoint now, const Failure& cause, CoordinatorActions& out) {
  if (state_ == State::ending) return;
  const bool was_ending = state_ == State::collecting;
  if (was_ending && cause.kind == FailureKind::signal) return;
  record(now, cause);
  if (was_ending) return;
  final_cause_ = failures_.size() - 1;
  if (state_ == State::gathering || state_ == State::standby) {
    end_failed(now, out);
    return;
  }
  if (state_ == State::running) stop_world(now, describe(cause), out);
  collect(now);
}

}  // namespace dlaunch::agent
