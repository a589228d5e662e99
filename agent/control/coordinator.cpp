#include "agent/control/coordinator.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "agent/control/loss_words.h"
#include "agent/model/job_rules.h"
#include "agent/model/last_lines.h"
#include "agent/model/restart_policy.h"
#include "store/base/count_words.h"
#include "store/base/printable.h"

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
      judge_(job_.hang_timeout) {
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
  stood_still_.look(now, armed_, job_.node_timeout);
  if (const auto* lost = std::get_if<MemberLost>(&event)) {
    on_lost(now, *lost, out);
  } else if (const auto* leaves = std::get_if<AgentLeaves>(&event)) {
    on_agent_leaves(now, leaves->failure, out);
  } else if (const auto* leads = std::get_if<LeadsUntil>(&event)) {
    on_election(now, *leads, out);
  } else if (const auto* refused = std::get_if<AgentRefused>(&event)) {
    remember_refusal(refused->who, refused->why);
  } else if (const auto* follows = std::get_if<FollowsAnother>(&event)) {
    follows_another_ = follows->yes;
  } else if (std::holds_alternative<CoordinatorTimer>(event)) {
    armed_.reset();
    on_timer(now, out);
  } else {
    on_message(now, std::get<FromMember>(event), out);
  }
  rearm(now, out);
  return out;
}

void Coordinator::on_message(TimePoint now, const FromMember& from, CoordinatorActions& out) {
  const auto& [member, message, address] = from;
  if (const auto* join = std::get_if<Join>(&message)) {
    on_join(now, member, *join, address, out);
    return;
  }
  if (const auto* ask = std::get_if<Ask>(&message)) {
    on_ask(now, member, *ask, out);
    return;
  }
  Roster::Node* node = roster_.find(member);
  if (node == nullptr) {
    refuse(member, "a Join must come first", out);
    return;
  }
  node->heard = now;
  if (const auto* failed = std::get_if<Failed>(&message)) {
    on_failed(now, *failed, out);
  } else if (const auto* done = std::get_if<Done>(&message)) {
    on_done(now, member, *done, out);
  } else if (const auto* stopped = std::get_if<Stopped>(&message)) {
    on_stopped(now, member, *stopped, out);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    on_leave(now, member, *leave, out);
  } else if (const auto* beat = std::get_if<Beat>(&message)) {
    on_beat(now, member, *beat, out);
  } else if (const auto* progress = std::get_if<Progress>(&message)) {
    on_progress(now, member, *progress, out);
  } else if (const auto* preempt = std::get_if<Preempt>(&message)) {
    on_preempt(member, *preempt, out);
  } else {
    refuse(member, "only a coordinator may say that", out);
  }
}

// Answers are not answered again: a Welcome is, and each beat of the member's own is, with the next.
void Coordinator::on_beat(TimePoint now, MemberId member, const Beat& beat, CoordinatorActions& out) {
  Roster::Node& node = *roster_.find(member);
  const TimePoint said{Duration(beat.stamp)};
  if (said <= now) node.echoed = std::max(node.echoed, said);
  node.own = beat.own;
  out.emplace_back(ToMember{member, Beat{stamp_of(now), 0, grant_to(now, node)}});
  announce_when_complete(now, out);  // where only that was missing
}

// --- who comes ---

void Coordinator::on_join(TimePoint now, MemberId member, Join join, const std::string& address,
                          CoordinatorActions& out) {
  join.host = shortened(printable(join.host), longest_host);
  if (roster_.find(member) != nullptr) {
    refuse(member, "it has joined already", out);
    return;
  }
  const bool missed_the_end = state_ == State::ending && join.been_in && join.job_id == job_.id;
  if (missed_the_end) {
    out.emplace_back(ToMember{member, End{outcome_.value()}});
    out.emplace_back(DropMember{member});
  }
  // A node that comes back has noticed the end of its connection before we have.
  if (const auto before = roster_.of_agent(join.agent); join.agent != 0 && before) {
    out.emplace_back(DropMember{*before});
    on_lost(now, {*before, "it came back by a new connection"}, out);
  }
  if (missed_the_end) return;
  absent_.remove(join.agent);
  left_running_.erase(join.agent);  // it says itself when its workers are gone
  if (const std::string why = reason_to_refuse(join); !why.empty()) {
    const std::string who = join.node_rank < 0 ? "a node" : "node " + std::to_string(join.node_rank);
    out.emplace_back(Say{Loudness::trouble, "refused " + who + " (host " + join.host + "): " + why});
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
  const Roster::Node& node = roster_.add(member, join, address, now);
  granting_until_.reset();
  if (member != local_member && job_.node_timeout > Duration(0) && !check_at_) check_at_ = now + job_.beat();
  if (state_ != State::standby) out.emplace_back(event_of(EventKind::joined, node, ""));
  out.emplace_back(Say{Loudness::detail, name_of(node) + " joined with " + count_of(join.slots, "worker") +
                                             ": " + std::to_string(roster_.ready()) + " of " +
                                             std::to_string(job_.nnodes)});
  if (state_ == State::standby) {
    out.emplace_back(ToMember{member, welcome(now, node, false, follows_another_)});
    lead_if_enough(now, out);
    return;
  }
  learn_from(now, join);
  if (formed_ && !join.been_in) out.emplace_back(ToMember{member, NewWorld{without_members(world_), {}}});
  out.emplace_back(ToMember{member, welcome(now, node, true, went_on_without(node))});
  if (state_ == State::gathering) {
    announce_when_complete(now, out);
  } else if (node.stopped) {  // otherwise once it is
    take_in(now, node, out);
  }
}

// Where the job needs every node, nothing is waited for any longer.
void Coordinator::on_unfit(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out) {
  constexpr std::size_t longest = 500;
  const std::string why = shortened(printable(join.unfit), longest);
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
    out.emplace_back(Say{Loudness::trouble, failure.why});
    remember_refusal("host " + join.host, why);
  }
}

// A node that has come while a world runs.
void Coordinator::take_in(TimePoint now, const Roster::Node& node, CoordinatorActions& out) {
  if (state_ != State::running) return;
  if (world_.nodes < job_.nnodes && !roster_.any_done()) {
    stop_world(now, name_of(node) + " came", out);
    out.emplace_back(Say{Loudness::progress, name_of(node) + " came: forming a new world of " +
                                                 count_of(std::min(roster_.ready(), job_.nnodes), "node")});
  } else {
    out.emplace_back(Say{Loudness::progress, name_of(node) + " waits as a spare"});
  }
}

std::string Coordinator::reason_to_refuse(const Join& join) const {
  if (state_ == State::ending) return "the job is ending";
  if (join.job_id != job_.id) return "this is job '" + job_.id + "', not '" + join.job_id + "'";
  if (join.nnodes != job_.nnodes) {
    return "this job has --nnodes=" + std::to_string(job_.nnodes) + ", not " + std::to_string(join.nnodes);
  }
  if (join.min_nodes != job_.least()) {
    return "this job needs at least " + count_of(job_.least(), "node") + ", not " +
           std::to_string(join.min_nodes);
  }
  if (join.max_restarts != job_.max_restarts) {
    return "this job has --max-restarts=" + std::to_string(job_.max_restarts) + ", not " +
           std::to_string(join.max_restarts);
  }
  if (std::string other = difference(rules_, join.rules); !other.empty()) return printable(other);
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
  const bool needed = join.been_in || roster_.ready() < fewest();
  if (job_.policy.exclude_after > 0 && failures >= job_.policy.exclude_after && !needed) {
    return "host " + join.host + " is left out: it failed " + count_of(failures, "time") +
           " (--exclude-after)";
  }
  // Where nodes are replaced, the one that comes may know of the other's end before we do.
  const auto taken = join.node_rank < 0 || job_.elastic() ? std::nullopt : roster_.of_rank(join.node_rank);
  if (taken) {
    return "--node-rank=" + std::to_string(join.node_rank) + " is taken by host " +
           roster_.nodes().at(*taken).joined.host;
  }
  const bool forming = state_ == State::gathering || state_ == State::standby;
  if (!forming && !job_.elastic()) return "all nodes of the job are in";
  if (roster_.nodes().size() >= static_cast<std::size_t>(max_nodes)) return "there are too many nodes";
  return "";
}

// Another time it may be taken.
std::string Coordinator::reason_to_wait(TimePoint now, MemberId member, const Join& join) const {
  // One of those that are here may be lost already, and this one its successor.
  if (by_majority() && roster_.ready() >= job_.nnodes + job_.spares) {
    return "this job has its " + count_of(job_.nnodes, "node") +
           (job_.spares > 0 ? " and " + count_of(job_.spares, "spare") : "");
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
  fence_at_.reset();
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
  const int ready = roster_.ready();
  if (ready < job_.least()) {
    last_call_.reset();
    return;
  }
  TimePoint when = may_begin_at();
  if (ready < enough_) {
    if (!last_call_) {
      last_call_ = now + patience_;
      if (!formed_) {
        out.emplace_back(Say{Loudness::progress,
                             count_of(ready, "node") + " of at most " + std::to_string(job_.nnodes) + " " +
                                 (ready == 1 ? "is" : "are") + " here, which is enough; waiting " +
                                 to_words(patience_) + " for more"});
      }
    }
    when = std::max(when, *last_call_);
  }
  // Who came before we led may be on its way to another endpoint, its end here not heard of yet.
  const bool all_follow = !led_since_ || roster_.all_have_answered(*led_since_);
  const bool may_begin = now >= when && roster_.all_stopped() && all_follow && sure_to_lead(now);
  if (may_begin && has_fencing(now, out)) announce_world(now, out);
}

void Coordinator::announce_world(TimePoint now, CoordinatorActions& out) {
  roster_.choose(job_.nnodes, world_);
  world_.round = next_round_++;
  world_.fencing = fencing_.next();
  fallen_.clear();
  suspects_.clear();
  fallen_ranks_.clear();
  judge_.begin();
  decisive_.reset();
  accused_until_.reset();
  preempted_.reset();
  last_call_.reset();
  left_running_.clear();
  announced_ = true;
  refusals_.clear();
  round_began_ = now;
  if (!std::exchange(formed_, true)) job_began_ = now;
  world_.age = now - job_began_;
  state_ = State::running;
  out.emplace_back(OpenStore{world_.round, lost_places_.without(roster_, now)});
  Event formed{EventKind::world, world_.round};
  formed.nodes = world_.nodes;
  formed.world_size = world_.world_size;
  out.emplace_back(std::move(formed));
  World copy = without_members(world_);
  std::size_t spares = 0;
  for (const auto& [member, node] : roster_.nodes()) {
    copy.members.clear();
    if (member == local_member) {
      copy.members = world_.members;
    } else if (node.active) {
      copy.members.push_back(world_.members[static_cast<std::size_t>(node.place)]);
    }
    spares += node.active || node.leaving ? 0 : 1;
    out.emplace_back(ToMember{member, NewWorld{copy, grant_to(now, node)}});
  }
  if (spares > 0)
    out.emplace_back(Say{Loudness::progress, count_of(static_cast<int>(spares), "node") + " beyond these " +
                                                 std::to_string(world_.nodes) + " as spares"});
}

void Coordinator::stop_world(TimePoint now, const std::string& why, CoordinatorActions& out) {
  state_ = State::stopping;
  accused_until_.reset();
  stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  waiting_since_ = now;
  report_at_ = now + first_report;
  for (const auto& [member, node] : roster_.nodes()) {
    const bool has_stopped = node.stopped && !node.done;
    if (node.active && !node.leaving && !has_stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, why}});
  }
}

// The workers had until then to end by themselves.
void Coordinator::kill_behind_the_fence(TimePoint now, CoordinatorActions& out) {
  if (!fence_at_ || now < *fence_at_) return;
  fence_at_ = TimePoint::max();
  for (const auto& [member, node] : roster_.nodes()) {
    if (node.active && !node.stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, "another node may lead the job now", true}});
  }
}

void Coordinator::go_on_when_all_stopped(TimePoint now, CoordinatorActions& out) {
  if (state_ == State::running && accused_until_ && roster_.all_stopped())
    stop_for(now, fallen_.front().failure, out);  // no worker is left to be waited for
  if (state_ == State::ending) {
    end_when_all_stopped(now, out);
  } else if (state_ == State::gathering) {
    announce_when_complete(now, out);
  } else if (!roster_.all_stopped()) {
    return;
  } else if (abdicates_) {
    abdicate(out);
  } else if (state_ == State::stopping) {
    go_on(now, out);
  } else if (state_ == State::collecting) {
    end_failed(now, out);
  }
}

// Nothing of the last round is left.
void Coordinator::go_on(TimePoint now, CoordinatorActions& out) {
  if (!fallen_.empty()) {
    const Fallen root = fallen_[find_cause()];
    const bool of_node =
        root.failure.kind == FailureKind::node_lost || root.failure.kind == FailureKind::health;
    const bool counts = !of_node || job_.counts_membership;
    const Restart entry{world_.restarts_used + (counts ? 1 : 0), root.when - job_began_, brief(root.failure),
                        root.when - round_began_, counts};
    Verdict verdict = judge(job_.policy, job_.max_restarts, world_.restarts_used, world_.restarts, entry);
    if (!verdict.restarts) {
      no_restart_ = std::move(verdict.why_not);
      return end_failed(now, out);
    }
    if (root.failure.kind != FailureKind::hang) {  // which has told it already
      for (std::string& sentence : judge_.diagnosis().sentences)
        out.emplace_back(Say{Loudness::progress, std::move(sentence)});
    }
    for (std::string& lines : last_lines_of(root.failure))
      out.emplace_back(Say{Loudness::progress, std::move(lines)});
    enter_in_ledger(entry, verdict.delay, out);
    not_before_ = std::max(not_before_, now + verdict.delay);
    leave_out(root.failure, out);
  }
  const int ready = roster_.ready();
  if (too_few()) return step_down(now, out);
  const bool enough = ready >= job_.least();
  gather(now, enough ? job_.least() : world_.nodes, job_.last_call, out);
  if (enough) return;
  out.emplace_back(Say{Loudness::progress,
                       "waiting for " + missing() + ", until " + to_words(job_.join_timeout) + " from now"});
}

void Coordinator::enter_in_ledger(const Restart& entry, Duration delay, CoordinatorActions& out) {
  remember(world_.restarts, entry);
  world_.restarts_used += entry.counted ? 1 : 0;
  if (job_.may_move()) {
    for (const auto& [member, node] : roster_.nodes())
      out.emplace_back(ToMember{member, Ledger{world_.restarts_used, world_.restarts}});
  }
  if (!entry.counted) return;
  Event restarted{EventKind::restarted, world_.round};
  restarted.number = world_.restarts_used;
  restarted.text = describe(entry.cause);
  out.emplace_back(std::move(restarted));
  const std::string later = delay > Duration(0) ? " in " + to_words(delay) : "";
  out.emplace_back(Say{Loudness::progress, "restarting all " + count_of(world_.world_size, "worker") + later +
                                               " (restart " + std::to_string(world_.restarts_used) + " of " +
                                               std::to_string(job_.max_restarts) + ") because " +
                                               describe(entry.cause)});
}

// A node that was the cause too often, where the others may do without it.
void Coordinator::leave_out(const Failure& cause, CoordinatorActions& out) {
  const int count = failures_of(cause.host, world_.restarts);
  if (job_.policy.exclude_after == 0 || count < job_.policy.exclude_after) return;
  for (auto& [member, node] : roster_.nodes()) {
    if (node.joined.host != cause.host || node.leaving) continue;
    const std::string why = "it failed " + count_of(count, "time") + " (--exclude-after)";
    if (member == local_member || roster_.ready() - 1 < fewest()) {
      out.emplace_back(Say{Loudness::trouble, name_of(node) + " should be left out, since " + why + ", but " +
                                                  (member == local_member ? "it serves the endpoint"
                                                                          : "there are not enough others")});
      continue;
    }
    out.emplace_back(Say{Loudness::trouble, "leaving out " + name_of(node) + ": " + why});
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
int Coordinator::fewest() const { return std::max(job_.least(), by_majority() ? quorum() : 0); }

// --- what nodes report ---

void Coordinator::on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out) {
  constexpr std::size_t most_suspects = 64;
  const bool of_this_round = failed.failure.round == world_.round;
  const bool wanted = state_ == State::running || state_ == State::stopping || state_ == State::collecting;
  if (!of_this_round || !wanted) return;
  if (only_suspected(failed.failure)) {
    if (suspects_.size() < most_suspects) suspects_.push_back(brief(failed.failure));
    return;
  }
  // To end was what its workers were asked for: that is no failure, and the node whose end it is leaves now.
  const Roster::Node* ending = preempted_ ? roster_.find(*preempted_) : nullptr;
  if (state_ == State::running && ending != nullptr && !ending->leaving)
    on_leave(now, *preempted_, Leave{told_to_end(*ending)}, out);
  const bool lost = failed.failure.kind == FailureKind::node_lost;  // its workers, not its agent
  if (!lost && !fallen_ranks_.insert(failed.failure.rank).second) return;
  // A world that is stopped because nodes came or went may well fail in doing so.
  if (state_ == State::stopping && fallen_.empty()) return;
  record(now - std::clamp(failed.age, Duration(0), now - round_began_), failed.failure);
  if (state_ != State::running) return;
  if (failed.failure.accuses_peer && may_still_run(failed.failure.accused)) {
    if (!accused_until_) accused_until_ = now + accused_grace;
  } else {
    stop_for(now, failed.failure, out);
  }
}

void Coordinator::stop_for(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  // A failure on this node has been said by it.
  const auto own = roster_.nodes().find(local_member);
  const bool is_here = own != roster_.nodes().end() && own->second.rank() == failure.node_rank;
  if (!is_here)
    out.emplace_back(Say{Loudness::progress,
                         describe(failure) + "; " + in_words(job_.stop_timeout, "the workers of all nodes")});
  stop_world(now, describe(failure), out);
  const bool lost = failure.kind == FailureKind::node_lost;
  if (lost ? !may_go_on() : !restarts_left()) collect(now);
}

// One that is not known may be any of those that run.
bool Coordinator::may_still_run(int accused) const {
  if (fallen_ranks_.contains(accused)) return false;
  return std::any_of(roster_.nodes().begin(), roster_.nodes().end(), [&](const auto& entry) {
    const Roster::Node& node = entry.second;
    if (node.place < 0 || node.done || node.stopped) return false;
    const WorldMember& there = world_.members[static_cast<std::size_t>(node.place)];
    return accused < 0 || (accused >= there.base_rank && accused < there.base_rank + there.slots);
  });
}

void Coordinator::on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out) {
  if (done.round != world_.round) return;
  if (state_ != State::running) {
    on_stopped(now, member, Stopped{done.round},
               out);  // too late to count as done, but nothing is left there
    return;
  }
  Roster::Node& node = *roster_.find(member);
  node.done = true;
  node.stopped = true;
  if (roster_.all_done()) end(now, Outcome{}, out);
}

void Coordinator::on_stopped(TimePoint now, MemberId member, const Stopped& stopped,
                             CoordinatorActions& out) {
  Roster::Node& node = *roster_.find(member);
  // Of one that joined while it was still stopping, the round is another leader's.
  if (node.active && stopped.round != world_.round) return;
  const bool came = !node.active && !node.stopped;
  node.stopped = true;
  if (came) take_in(now, node, out);
  go_on_when_all_stopped(now, out);
}

// One node will end: the workers of all are given notice, once in a round.
void Coordinator::on_preempt(MemberId member, const Preempt& preempt, CoordinatorActions& out) {
  const Roster::Node& ending = *roster_.find(member);
  if (preempt.round != world_.round || state_ != State::running || preempted_) return;
  if (!ending.active || ending.done) return;
  preempted_ = member;
  for (const auto& [other, node] : roster_.nodes()) {
    if (other != member && node.active && !node.done)
      out.emplace_back(ToMember{other, Preempt{world_.round, name_of(ending)}});
  }
}

// Where workers stand; and where none of them has moved for the limit, the job hangs.
void Coordinator::on_progress(TimePoint now, MemberId member, const Progress& progress,
                              CoordinatorActions& out) {
  if (progress.round != world_.round) return;
  judge_.take(member, progress);
  if (state_ != State::running || !judge_.hangs(roster_)) return;
  const Diagnosis diagnosis = judge_.diagnosis();
  const Failure failure = judge_.failure(diagnosis, world_);
  Event hung{EventKind::hung, world_.round, failure.node_rank, failure.host, failure.rank};
  hung.text = describe(failure);
  out.emplace_back(std::move(hung));
  out.emplace_back(Say{Loudness::trouble, describe(failure)});
  for (std::size_t i = 1; i < diagnosis.sentences.size(); ++i)
    out.emplace_back(Say{Loudness::trouble, diagnosis.sentences[i]});
  record(now, failure);
  stop_world(now, describe(failure), out);
  if (!restarts_left()) collect(now);
}

void Coordinator::on_leave(TimePoint now, MemberId member, const Leave& leave, CoordinatorActions& out) {
  Roster::Node& node = *roster_.find(member);
  const Failure& failure = leave.failure;
  if (failure.kind != FailureKind::signal) {
    if (may_go_on()) {
      node.leaving = true;
      lose(now, node, failure, out);
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
  const bool needed = node.active && !node.done && roster_.ready() - 1 < job_.least();
  const bool waiting = state_ == State::gathering || state_ == State::standby;
  const bool decided = state_ == State::collecting || state_ == State::ending;
  if (member == local_member && job_.may_move() && !needed && !decided) {
    abdicates_ = outcome;
    node.leaving = true;
    if (state_ == State::running) stop_world(now, name_of(node) + ", which leads, was told to leave", out);
    if (waiting || roster_.all_stopped()) abdicate(out);
    return;
  }
  const bool may_go = waiting || !node.active || (job_.elastic() && !needed);
  if (member == local_member || !may_go || state_ == State::collecting || state_ == State::ending) {
    end_the_job_by(now, failure, out);
    return;
  }
  out.emplace_back(Say{Loudness::progress, name_of(node) + " leaves: " + describe(failure)});
  out.emplace_back(event_of(EventKind::left, node, describe(failure)));
  out.emplace_back(ToMember{member, End{outcome}});
  node.leaving = true;
  if (state_ == State::running && node.active && !node.done) stop_world(now, name_of(node) + " leaves", out);
  announce_when_complete(now, out);
}

void Coordinator::on_agent_leaves(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  const bool again = state_ == State::ending || state_ == State::collecting;
  if (job_.may_move() || again) {
    abdicate(out);
  } else {
    end_the_job_by(now, failure, out);
  }
}

void Coordinator::on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out) {
  const TimePoint sure = sure_until();
  const auto node = roster_.remove(lost.member);
  judge_.forget(lost.member);
  granting_until_.reset();
  if (node) note_left_running(now, *node, lost.silent);
  if (node && lost.silent) absent_.add(node->joined.agent, name_of(*node), node->heard);
  if (!node || state_ == State::standby) return;
  const bool expected = node->leaving || node->done || state_ == State::ending;
  if (!expected && (state_ == State::gathering || !node->active)) {
    out.emplace_back(Say{Loudness::trouble, name_of(*node) + " is gone again: " + lost.why});
    out.emplace_back(event_of(EventKind::left, *node, lost.why));
  } else if (!expected) {
    const Failure failure = hung_up(now, *node, loss_in_words(lost.why, lost.silent, node->joined.host));
    if (may_go_on()) {
      lose(now, *node, failure, out);
    } else {
      end_the_job_by(now, failure, out);
    }
  }
  if (state_ == State::running && roster_.all_done()) {
    end(now, Outcome{}, out);
  } else if (state_ == State::running && too_few()) {
    stop_world(now, "fewer than a majority of the nodes are here", out);
  } else if (state_ == State::gathering && too_few()) {
    step_down(now, out);
  }
  const bool runs = state_ == State::stopping || state_ == State::collecting;
  if (runs && too_few() && !fence_at_) fence_at_ = sure;
  go_on_when_all_stopped(now, out);
}

// The others form a new world, now or when enough have come.
void Coordinator::lose(TimePoint now, const Roster::Node& node, const Failure& failure,
                       CoordinatorActions& out) {
  record(now, failure);
  out.emplace_back(Say{Loudness::trouble, describe(failure)});
  out.emplace_back(event_of(EventKind::lost, node, failure.why));
  const int ready = roster_.ready();
  if (ready >= job_.least()) {
    out.emplace_back(Say{Loudness::progress, "going on without " + name_of(node) + ", with " +
                                                 count_of(std::min(ready, job_.nnodes), "node")});
  }
  // Where the workers' failures were all that was known, and no restart was left for them, this explains
  // them.
  if (state_ == State::collecting && !decisive_) {
    state_ = State::stopping;
    stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  } else if (state_ == State::running) {
    stop_world(now, describe(failure), out);
  }
}

// A node is gone; whether the others may form a new world, now or when another has come.
bool Coordinator::may_go_on() const {
  if (state_ == State::collecting && decisive_) return false;
  return job_.elastic() && (!job_.counts_membership || restarts_left());
}

Failure Coordinator::told_to_end(const Roster::Node& node) const {
  Failure failure = lost_node(node, "");
  failure.kind = FailureKind::signal;
  failure.status = {ExitStatus::How::signaled, SIGTERM, false};
  return failure;
}

// The connection to a node has ended. If this process did not run before, it was that node which gave this
// one up.
Failure Coordinator::hung_up(TimePoint now, const Roster::Node& node, const std::string& why) {
  Failure failure = lost_node(node, why);
  const std::string own = stood_still_.in_words(now);
  const Roster::Node* const here = roster_.find(local_member);
  if (own.empty() || here == nullptr) return failure;
  failure.why = own + ", and " + name_of(node) + " gave it up";
  failure.node_rank = here->rank();
  failure.host = here->joined.host;
  return failure;
}

Failure Coordinator::lost_node(const Roster::Node& node, std::string why) const {
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
  if (check_at_ && now >= *check_at_) drop_the_silent(now, out);
  kill_behind_the_fence(now, out);
  if (state_ == State::running && accused_until_ && now >= *accused_until_) {
    stop_for(now, fallen_.front().failure, out);
  } else if (state_ == State::gathering) {
    announce_when_complete(now, out);
    if (state_ == State::gathering) end_after_join_timeout(now, out);
    if (state_ == State::gathering) report(now, out);
  } else if (state_ == State::stopping && now >= stop_deadline_) {
    std::vector<MemberId> mute;
    for (const auto& [member, node] : roster_.nodes()) {
      if (!node.stopped) mute.push_back(member);
    }
    for (const MemberId member : mute) {
      if (state_ != State::stopping) break;
      const Roster::Node node = *roster_.find(member);
      const Failure failure = lost_node(node, "it did not stop its workers in time");
      if (!may_go_on()) {
        end_the_job_by(now, failure, out);
        end_failed(now, out);  // it had its time
        return;
      }
      roster_.remove(member);
      granting_until_.reset();
      note_left_running(now, node, true);
      out.emplace_back(DropMember{member});
      lose(now, node, failure, out);
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

void Coordinator::drop_the_silent(TimePoint now, CoordinatorActions& out) {
  // Where it was this process that slept, what the nodes have said meanwhile is still to be read.
  const bool overslept = now - *check_at_ > job_.beat();
  check_at_ = now + job_.beat();
  if (overslept) return;
  std::vector<MemberId> silent;
  for (const auto& [member, node] : roster_.nodes()) {
    if (member != local_member && now - node.heard >= job_.node_timeout) silent.push_back(member);
  }
  for (const MemberId member : silent) {
    const Roster::Node* node = roster_.find(member);
    if (node == nullptr || state_ == State::ended) continue;
    const Duration quiet = now - node->heard;
    out.emplace_back(DropMember{member});
    on_lost(now, {member, "no sign of life for " + to_words(quiet), true}, out);
  }
}

void Coordinator::end_after_join_timeout(TimePoint now, CoordinatorActions& out) {
  if (now < join_deadline_ || roster_.ready() >= job_.least()) return;
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
  } else if (state_ == State::gathering && roster_.ready() < job_.least()) {
    until = to_words(join_deadline_ - now);
    what += " at " + to_string(world_.store);
  }
  const std::string text = "waiting for " + what + " since " + to_words(now - waiting_since_) +
                           (until.empty() ? "" : ", until " + until + " from now");
  out.emplace_back(Say{Loudness::progress, text});
  for (const auto& [member, node] : roster_.nodes()) {
    if (member != local_member) out.emplace_back(ToMember{member, Notice{text}});
  }
}

void Coordinator::rearm(TimePoint now, CoordinatorActions& out) {
  std::optional<TimePoint> next;
  const auto wake = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (check_at_) wake(*check_at_);
  if (fence_at_ && *fence_at_ < TimePoint::max()) wake(std::max(*fence_at_, now));
  switch (state_) {
    case State::gathering:
      wake(report_at_);
      if (now < join_deadline_) wake(join_deadline_);
      if (last_call_ && *last_call_ > now) wake(*last_call_);
      if (roster_.ready() >= job_.least()) {
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
      if (accused_until_) wake(*accused_until_);
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
  fallen_.push_back({when, fallen_.size() < in_full ? failure : brief(failure)});
  if (failure.kind == FailureKind::worker) judge_.note_end(failure.rank, describe_briefly(failure.status));
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
  decisive_ = fallen_.size() - 1;
  if (state_ == State::gathering || state_ == State::standby) {
    end_failed(now, out);
    return;
  }
  if (state_ == State::running) stop_world(now, describe(cause), out);
  collect(now);
}

}  // namespace dlaunch::agent
