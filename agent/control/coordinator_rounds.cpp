// How a coordinator goes from one world to the next, and what the nodes of a world report to it.
#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "agent/control/coordinator.h"
#include "agent/model/call_mismatch.h"
#include "agent/model/last_lines.h"
#include "agent/model/remedy.h"
#include "agent/model/restart_policy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {

// --- from one world to the next ---

void Coordinator::gather(TimePoint now, int enough, Duration patience, CoordinatorActions& out) {
  state_ = State::gathering;
  leadership_.clear_fence();
  waiting_ = Waiting(now, job_.join_timeout);
  last_call_ = LastCall(enough, patience);
  announce_when_complete(now, out);
}

void Coordinator::announce_when_complete(TimePoint now, CoordinatorActions& out) {
  if (state_ != State::gathering) return;
  const int ready = membership_.ready();
  if (ready < job_.required_nodes()) {
    last_call_.cancel();
    return;
  }
  if (last_call_.begin(now, ready) && !formed_) {
    out.emplace_back(LogMessage{
        Severity::info, pluralize(ready, "node") + " of at most " + std::to_string(job_.nnodes) + " " +
                            (ready == 1 ? "is" : "are") + " here, which is enough; waiting " +
                            to_words(last_call_.patience()) + " for more"});
  }
  const TimePoint when = std::max(may_begin_at(), last_call_.over_at(ready));
  // The last one asks all nodes each time.
  const bool may_begin = now >= when && leadership_.all_follow(membership_) && membership_.all_stopped() &&
                         leadership_.is_sure(now, membership_);
  if (may_begin && has_fencing(now, out)) announce_world(now, out);
}

// From then on nothing of an earlier world runs, and the restart's delay is over.
TimePoint Coordinator::may_begin_at() {
  return std::max(not_before_, earlier_worlds_.gone_by(membership_, leadership_));
}

void Coordinator::announce_world(TimePoint now, CoordinatorActions& out) {
  membership_.choose(job_.nnodes, world_);
  world_.round = next_round_++;
  world_.fencing = leadership_.tokens().next();
  failures_.begin();
  hang_detector_.begin();
  stall_looks_ = PacedLooks();
  hang_notes_.begin();
  idle_notes_.begin();
  stragglers_.begin_round(now, world_.world_size);
  inspects_ = false;
  stack_of_.reset();
  preempted_.reset();
  pmi_barrier_.begin(world_.round);
  last_call_.cancel();
  earlier_worlds_.on_world();
  leadership_.on_announced();
  admission_.forget_refusals();
  round_began_ = now;
  if (!std::exchange(formed_, true)) job_began_ = now;
  world_.age = now - job_began_;
  state_ = State::running;
  out.emplace_back(OpenStore{world_.round, earlier_worlds_.blocked_hosts(membership_, now)});
  Event formed{EventKind::world, world_.round};
  formed.nodes = world_.nodes;
  formed.world_size = world_.world_size;
  out.emplace_back(std::move(formed));
  World copy = world_;
  const WorldMember* const leader = world_.member(agent_);  // none: it is a spare
  std::size_t spares = 0;
  for (const auto& [member, node] : membership_.nodes()) {
    copy.members.clear();
    if (member == local_member) {
      copy.members = world_.members;
    } else {
      if (leader != nullptr) copy.members.push_back(*leader);
      if (node.active) copy.members.push_back(world_.members[static_cast<std::size_t>(node.index)]);
    }
    spares += node.active || node.leaves() ? 0 : 1;
    out.emplace_back(ToMember{member, NewWorld{copy, grant_to(now, node)}});
  }
  if (spares > 0)
    out.emplace_back(LogMessage{Severity::info, pluralize(static_cast<int>(spares), "node") +
                                                    (spares == 1 ? " waits as a spare" : " wait as spares")});
}

void Coordinator::stop_world(TimePoint now, const std::string& why, CoordinatorActions& out,
                             Duration unnoticed) {
  state_ = State::stopping;
  failures_.stop_awaiting();
  stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  waiting_ = Waiting(now, job_.join_timeout);
  for (const auto& [member, node] : membership_.nodes()) {
    const bool has_stopped = node.stopped && !node.done;
    if (node.active && !node.leaves() && !has_stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, why, false, unnoticed}});
  }
}

void Coordinator::go_on_when_all_stopped(TimePoint now, CoordinatorActions& out) {
  if (state_ == State::running && failures_.awaits_until() && membership_.all_stopped())
    stop_for(now, failures_.first(), out);  // no worker is left to wait for
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
    const TimedFailure root = failures_.find_cause(hang_detector_, world_);
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
    if (root.failure.kind != FailureKind::hang) {  // a hang has logged it already
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
  if (leadership_.too_few(membership_)) return lose_leadership(now, out);
  const bool enough = ready >= job_.required_nodes();
  gather(now, enough ? job_.required_nodes() : world_.nodes, job_.last_call, out);
  if (enough) return;
  out.emplace_back(LogMessage{
      Severity::info, "waiting for " + missing() + " (giving up in " + to_words(job_.join_timeout) + ")"});
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

// Excludes a node that was the cause too often, if the others can go on without it.
void Coordinator::leave_out(const Failure& cause, CoordinatorActions& out) {
  const int count = failures_of(cause.host, world_.restarts);
  if (job_.policy.exclude_after == 0 || count < job_.policy.exclude_after) return;
  for (auto& [member, node] : membership_.nodes()) {
    if (node.joined.host != cause.host || node.leaves()) continue;
    const std::string why = "it failed " + pluralize(count, "time") + " (--exclude-after)";
    if (member == local_member || membership_.ready() - 1 < fewest()) {
      out.emplace_back(LogMessage{
          Severity::warning,
          "cannot exclude " + name_of(node) + " (" + why +
              "): " + (member == local_member ? "it serves the endpoint" : "too few other nodes remain")});
      continue;
    }
    out.emplace_back(LogMessage{Severity::warning, "excluding " + name_of(node) + ": " + why});
    out.emplace_back(event_of(EventKind::lost, node, why));
    membership_.set_leaving(member);
    Outcome outcome;
    outcome.failed = true;
    outcome.exit_code = exit_code_of(cause);
    outcome.cause = cause;
    outcome.no_restart = "this node is excluded: " + why;
    outcome.restarts_used = world_.restarts_used;
    out.emplace_back(ToMember{member, End{outcome}});
  }
}

// With fewer nodes the job cannot go on.
int Coordinator::fewest() const {
  return std::max(job_.required_nodes(), leadership_.is_by_majority() ? leadership_.quorum() : 0);
}

// --- what nodes report ---

void Coordinator::on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out) {
  const bool of_this_round = failed.failure.round == world_.round;
  const bool wanted = state_ == State::running || state_ == State::stopping || state_ == State::collecting;
  if (!of_this_round || !wanted) return;
  if (is_suspect(failed.failure)) {
    failures_.add_suspect(failed.failure);
    return;
  }
  // After a preemption notice the workers may end, so this is no failure. The preempted node leaves now.
  const Membership::Node* ending = preempted_ ? membership_.find(*preempted_) : nullptr;
  if (state_ == State::running && ending != nullptr && !ending->leaves())
    on_leave(now, *preempted_, Leave{stopped_by_signal(*ending)}, out);
  const bool lost = failed.failure.kind == FailureKind::node_lost;  // its workers, not its agent
  if (!lost && !failures_.add_rank(failed.failure.rank)) return;
  // A world that is stopped because nodes came or went may well fail in doing so.
  if (state_ == State::stopping && failures_.empty()) return;
  record(now - std::clamp(failed.age, Duration(0), now - round_began_), failed.failure);
  if (state_ != State::running) return;
  if (failed.failure.blames_peer &&
      failures_.may_still_end(awaited_after(failed.failure), membership_, world_)) {
    failures_.await_blamed_rank(now + blamed_rank_grace);
  } else {
    stop_for(now, failed.failure, out);
  }
}

void Coordinator::stop_for(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  // A failure on this node is already in its log.
  const auto own = membership_.nodes().find(local_member);
  const bool is_here = own != membership_.nodes().end() && own->second.rank() == failure.node_rank;
  if (!is_here)
    out.emplace_back(LogMessage{
        Severity::info, describe(failure) + "; " + describe(job_.stop_timeout, "the workers of all nodes")});
  stop_world(now, describe(failure), out, failure.unnoticed);
  const bool lost = failure.kind == FailureKind::node_lost;
  if (lost ? !may_go_on() : !restarts_left()) collect(now);
}

void Coordinator::on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out) {
  if (done.round != world_.round) return;
  if (state_ != State::running) {
    on_stopped(now, member, Stopped{done.round}, out);  // too late for done, but nothing is left there
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
  // If the node joined while it was still stopping, the round is another leader's.
  if (node.active && stopped.round != world_.round) return;
  const bool came = !node.active && !node.stopped;
  node.stopped = true;
  if (came) take_in(now, node, out);
  go_on_when_all_stopped(now, out);
}

// One node will end: the workers of all nodes get notice, once in a round.
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

Duration Coordinator::stall() const { return hang_detector_.stall(membership_, job_.hang_note, true); }

void Coordinator::note_stall(CoordinatorActions& out) const {
  const Diagnosis diagnosis = hang_detector_.diagnosis();
  Event note = hang_detector_.note(diagnosis, world_, stall());
  out.emplace_back(LogMessage{Severity::warning, note.text});
  out.emplace_back(std::move(note));
  for (std::size_t i = 1; i < diagnosis.sentences.size(); ++i)
    out.emplace_back(LogMessage{Severity::warning, diagnosis.sentences[i]});
  if (std::string advice = HangDetector::advice_on_link(diagnosis, world_); !advice.empty())
    out.emplace_back(LogMessage{Severity::warning, "the network between them: " + advice});
  if (std::string advice = hang_detector_.advice_on_stopped(diagnosis, world_); !advice.empty())
    out.emplace_back(LogMessage{Severity::warning, "let it go on: " + advice});
  if (std::string advice = hang_detector_.advice_on_devices(diagnosis, world_, true); !advice.empty())
    out.emplace_back(LogMessage{Severity::warning, "what the GPUs do: " + advice});
}

// The note may be the last word of a job that a user then kills, so it does not wait for the stack.
void Coordinator::request_stack(CoordinatorActions& out) {
  const Diagnosis diagnosis = hang_detector_.diagnosis();
  if (diagnosis.missing.empty()) return;
  Failure missing;
  missing.rank = diagnosis.missing.front();
  place_worker(missing, world_);
  for (const auto& [member, node] : membership_.nodes()) {
    if (!node.active || node.rank() != missing.node_rank) continue;
    out.emplace_back(ToMember{member, StackRequest{world_.round, missing.rank}});
    stack_of_ = missing.rank;
  }
}

// Nothing, if it is not known.
void Coordinator::report_stack(int rank, CoordinatorActions& out) const {
  const std::string stack = hang_detector_.stack_of(rank);
  if (stack.empty()) return;
  std::istringstream lines(stack);
  out.emplace_back(
      LogMessage{Severity::warning, "the main thread of rank " + std::to_string(rank) + " is in"});
  for (std::string line; std::getline(lines, line);)
    out.emplace_back(LogMessage{Severity::warning, "  " + sanitize_for_terminal(line)});
}

void Coordinator::request_ranks(TimePoint now, const RanksWanted& wanted, CoordinatorActions& out) {
  if (!leads() || !ranks_reports_.may_request(now, wanted.rank_with_lines)) return;
  for (const auto& [member, node] : membership_.nodes())
    out.emplace_back(ToMember{member, RanksRequest{wanted.rank_with_lines}});
}

std::string Coordinator::advice_for_stall() const {
  return "the stacks: dlaunch dump " + job_.id + " on each host; --hang-timeout " +
         (job_.hang_timeout > Duration(0) ? "ends the job after " + to_words(job_.hang_timeout)
                                          : "ends such a job");
}

void Coordinator::on_progress(TimePoint now, MemberId member, const Progress& progress,
                              CoordinatorActions& out) {
  if (progress.round != world_.round) return;
  hang_detector_.take(member, progress);
  if (state_ != State::running) return;
  if (stack_of_ && !hang_detector_.stack_of(*stack_of_).empty())
    report_stack(*std::exchange(stack_of_, std::nullopt), out);
  if (stall_looks_.take(now, membership_.nodes().size())) look_for_stall(now, out);
}

// If no worker has moved for the limit, the job hangs.
void Coordinator::look_for_stall(TimePoint now, CoordinatorActions& out) {
  if (hang_detector_.hangs(membership_)) return stop_hanging_world(now, out);
  note_if_idle(out);
  if (!hang_notes_.take(stall())) return;
  note_stall(out);
  request_stack(out);
  out.emplace_back(LogMessage{Severity::info, advice_for_stall()});
}

void Coordinator::stop_hanging_world(TimePoint now, CoordinatorActions& out) {
  const Diagnosis diagnosis = hang_detector_.diagnosis();
  Failure failure = hang_detector_.failure(diagnosis, world_);
  std::string advice;
  if (failure.remedy.empty()) advice = hang_detector_.advice_on_devices(diagnosis, world_, false);
  if (advice.empty()) advice = remedy_of_hang(job_, failure, hang_detector_.is_stopped(failure.rank));
  if (!advice.empty()) failure.remedy = std::move(advice);
  Event hung{EventKind::hung, world_.round, failure.node_rank, failure.host, failure.rank};
  hung.text = describe(failure);
  out.emplace_back(std::move(hung));
  out.emplace_back(LogMessage{Severity::warning, describe(failure)});
  for (std::size_t i = 1; i < diagnosis.sentences.size(); ++i)
    out.emplace_back(LogMessage{Severity::warning, diagnosis.sentences[i]});
  report_stack(failure.rank, out);
  record(now, failure);
  stop_world(now, describe(failure), out, failure.unnoticed);
  if (!restarts_left()) collect(now);
}

// --- the workers' MPI ---

void Coordinator::on_pmi_enter(TimePoint now, MemberId member, const PmiEnter& enter,
                               CoordinatorActions& out) {
  if (state_ != State::running || !membership_.find(member)->active) return;
  for (const PmiRelease& release : pmi_barrier_.take(member, enter, membership_)) {
    for (const auto& [other, node] : membership_.nodes()) {
      if (node.active) out.emplace_back(ToMember{other, release});
    }
  }
  const std::optional<int> missed_by = pmi_barrier_.missed_by();
  if (!missed_by && !pmi_barrier_.is_full()) return;
  Failure failure;
  failure.round = world_.round;
  if (missed_by) {
    failure.kind = FailureKind::left;
    failure.rank = *missed_by;
    place_worker(failure, world_);
    failure.why = "returned 0, and other ranks wait for it in MPI_Init or MPI_Finalize";
    failure.remedy = remedy_of_early_return_from_mpi();
  } else {
    failure.why = "the ranks have published more for each other (PMI) than the " +
                  std::to_string(most_pmi_bytes >> 20U) + " MiB that there is room for";
  }
  record(now, failure);
  stop_for(now, failure, out);
}

}  // namespace dlaunch::agent
