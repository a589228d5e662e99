#include "agent/control/coordinator.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <utility>

#include "agent/control/one_of.h"
#include "agent/model/job_rules.h"
#include "agent/model/last_lines.h"
#include "agent/model/remedy.h"
#include "agent/model/restart_policy.h"
#include "store/base/overloaded.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
Coordinator::Coordinator(JobSpec job, Address own, AgentId agent, TimePoint now, std::int64_t unix_us,
                         bool had_predecessor)
    : job_(std::move(job)),
      leases_(job_.node_timeout),
      agent_(agent),
      state_(job_.may_move() ? State::standby : State::gathering),
      leadership_(job_, FencingTokens(unix_us, now)),
      unix_minus_stamp_(unix_us * 1000 - stamp_of(now)),
      earlier_worlds_(job_, now, had_predecessor),
      admission_(job_),
      waiting_(now, job_.join_timeout),
      last_call_(job_.nnodes, job_.last_call),
      hang_detector_(job_.hang_timeout),
      hang_notes_(job_.hang_note),
      idle_notes_(job_.hang_note),
      stragglers_(job_.straggler_window) {
  world_.store = std::move(own);
  world_.leader = agent_;
}

CoordinatorActions Coordinator::begin() {
  CoordinatorActions out;
  rearm(waiting_.since(), out);
  return out;
}

CoordinatorActions Coordinator::step(TimePoint now, const CoordinatorEvent& event) {
  CoordinatorActions out;
  if (state_ == State::ended) {
    // Another coordinator may lead: a member that still comes here must search for it.
    if (const auto* from = std::get_if<FromMember>(&event); from != nullptr && from->member != local_member)
      out.emplace_back(DropMember{from->member});
    return out;
  }
  suspension_.look(now, armed_, job_.node_timeout);
  std::visit(Overloaded{[&](const FromMember& from) { on_message(now, from, out); },
                        [&](const MemberLost& lost) { on_lost(now, lost, out); },
                        [&](const CoordinatorTimer&) { on_timer(now, out); },
                        [&](const AgentLeaves& leaves) { on_agent_leaves(now, leaves.failure, out); },
                        [&](const AgentRefused& refused) {
                          admission_.remember(refused.peer, refused.why, refused.remedy);
                        },
                        [&](const FollowsAnother& follows) { follows_another_ = follows.yes; },
                        [&](const LeadsUntil& leads) { on_election(now, leads, out); },
                        [&](const RanksWanted& wanted) { request_ranks(now, wanted, out); }},
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
      refuse(member, {"its first message is not a Join"}, out);
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
                        [&](const PmiEnter& enter) { on_pmi_enter(now, member, enter, out); },
                        [&](const Inspected& inspected) { on_inspected(member, inspected, out); },
                        [&](const RanksReport& report) { ranks_reports_.take(member, report.ranks); },
                        [&](const ArrivalsReport& report) { on_arrivals(now, member, report, out); },
                        [&](const TimesReport& report) {
                          times_[membership_.find(member)->joined.agent] = report.times;
                        },
                        [&](const OneOf<Welcome, Refused, NewWorld, StopRound, End, Notice, RestartHistory,
                                        StackRequest, PmiRelease, RanksRequest, InspectionRequest,
                                        LatenessReport, Hello, Challenge, Proof> auto&) {
                          refuse(member, {"only a coordinator may send this message"}, out);
                        }},
             from.message);
}

// An answer is not answered again. A Welcome is answered, and each heartbeat of a member with the next one.
void Coordinator::on_heartbeat(TimePoint now, MemberId member, const Heartbeat& heartbeat,
                               CoordinatorActions& out) {
  Membership::Node& node = *membership_.find(member);
  const TimePoint said{Duration(heartbeat.stamp)};
  if (said <= now) node.echoed = std::max(node.echoed, said);
  node.own = heartbeat.own;
  out.emplace_back(ToMember{member, Heartbeat{stamp_of(now), 0, grant_to(now, node)}});
  announce_when_complete(now, out);  // if only this answer was missing
}

// --- time ---

void Coordinator::on_timer(TimePoint now, CoordinatorActions& out) {
  armed_.reset();
  if (check_at_ && now >= *check_at_) drop_silent_members(now, out);
  enforce_fencing(now, out);
  if (state_ == State::running && now >= failures_.awaits_until().value_or(TimePoint::max())) {
    stop_for(now, failures_.first(), out);
  } else if (state_ == State::running) {
    if (stall_looks_.take_due(now)) look_for_stall(now, out);
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
        end_failed(now, out);  // the node had its time to stop
        return;
      }
      membership_.remove(member);
      ranks_reports_.forget(member);
      earlier_worlds_.on_left_running(now, node, true);
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
  // If this process did not run, the messages that the nodes sent meanwhile are still to be read.
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
    on_lost(now, {member, {LossKind::silent, "no answer for " + to_words(quiet)}}, out);
  }
}

void Coordinator::end_after_join_timeout(TimePoint now, CoordinatorActions& out) {
  if (!waiting_.is_over(now) || membership_.ready() >= job_.required_nodes()) return;
  Failure failure;
  failure.kind = FailureKind::join;
  failure.why = missing() + " did not join at " + to_string(world_.store) + " within " +
                to_words(job_.join_timeout) + " (--join-timeout)";
  const std::string refused = admission_.refused_meanwhile();
  failure.why += refused;
  failure.remedy = refused.empty() ? remedy_of_missing_nodes(world_.store, missing_ranks())
                                   : admission_.remedy_of_refusal();
  end_the_job_by(now, failure, out);
}

// Each node that waits gets the reason, because users look at any of the nodes.
void Coordinator::report(TimePoint now, CoordinatorActions& out) {
  if (!waiting_.take_report(now)) return;
  std::string what = waiting_for(now);
  if (what.empty()) return;
  std::string until;
  if (state_ == State::stopping || state_ == State::collecting) {
    until = to_words(stop_deadline_ - now);
  } else if (state_ == State::gathering && membership_.ready() < job_.required_nodes()) {
    until = to_words(waiting_.deadline() - now);
    what += " at " + to_string(world_.store);
  }
  const std::string text = "waiting for " + what + " (" + to_words(now - waiting_.since()) + " so far" +
                           (until.empty() ? "" : "; giving up in " + until) + ")";
  out.emplace_back(LogMessage{Severity::info, text});
  for (const auto& [member, node] : membership_.nodes()) {
    if (member != local_member) out.emplace_back(ToMember{member, Notice{text}});
  }
}

void Coordinator::rearm(TimePoint now, CoordinatorActions& out) {
  std::optional<TimePoint> next;
  const auto wake = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (check_at_) wake(*check_at_);
  if (const auto fence = leadership_.next_fence()) wake(std::max(*fence, now));
  switch (state_) {
    case State::gathering:
      wake(waiting_.report_at());
      if (!waiting_.is_over(now)) wake(waiting_.deadline());
      if (const auto until = last_call_.until(); until && *until > now) wake(*until);
      if (membership_.ready() >= job_.required_nodes()) {
        if (const TimePoint when = may_begin_at(); when > now) wake(when);
      }
      break;
    case State::stopping:
      wake(stop_deadline_);
      wake(waiting_.report_at());
      break;
    case State::collecting:
      wake(collect_until_);
      break;
    case State::ending:
      wake(answers_until_.value_or(end_deadline_));
      break;
    case State::standby:
      wake(waiting_.report_at());
      break;
    case State::running:
      if (const auto until = failures_.awaits_until()) wake(*until);
      if (const auto due = stall_looks_.due()) wake(*due);
      break;
    case State::ended:
      break;
  }
  if (state_ == State::ended || !next || next == armed_) return;
  armed_ = next;
  out.emplace_back(ArmCoordinatorTimer{*next});
}

}  // namespace dlaunch::agent
