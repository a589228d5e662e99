#include "launcher/remote/remote_job.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>

#include "launcher/report/report.h"
#include "store/base/overloaded.h"

namespace dlaunch::launcher {

using agent::Failure;
using agent::FailureKind;

RemoteJob::RemoteJob(const RemotePlan& plan, Duration notice)
    : plan_(plan), notice_(notice), hosts_(plan.hosts.size()) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) waiting_.insert(static_cast<int>(i));
}

RemoteActions RemoteJob::begin(TimePoint now) {
  RemoteActions out;
  start_more(now, out);
  arm(out);
  return out;
}

RemoteActions RemoteJob::step(TimePoint now, const RemoteEvent& event) {
  RemoteActions out;
  if (ended_) return out;
  std::visit(Overloaded{
                 [&](const HostReady& e) { on_ready(e.node, out); },
                 [&](const HostMessage& e) { on_message(e.node, e.message); },
                 [&](const HostGone& e) { on_gone(now, e, out); },
                 [&](const HostNotRun& e) { on_not_run(now, e, out); },
                 [&](const UserSignal& e) { on_signal(now, e, out); },
                 [&](const RemoteTimer&) { on_timer(now, out); },
             },
             event);
  if (hurry_ == Hurry::none) start_more(now, out);
  end_when_all_gone(out);
  if (!ended_) arm(out);
  return out;
}

bool RemoteJob::is_over() const {
  return ended_ || hosts_.front().exit_code || hosts_.front().state == Host::State::gone;
}

RemoteOutcome RemoteJob::outcome() const {
  RemoteOutcome outcome;
  const Host& first = hosts_.front();
  // A host that loses its connection ends as with SIGHUP, and node 0 can report no more than that.
  const bool is_cut =
      suspect_ && suspect_->kind == FailureKind::node_lost && signo_ == 0 && first.exit_code == 128 + SIGHUP;
  if (cause_) {
    outcome.cause = cause_;
    outcome.exit_code = cause_code_;
  } else if (is_cut) {
    outcome.cause = suspect_;
    outcome.exit_code = exit_code_of(*suspect_);
  } else if (first.exit_code) {
    outcome.exit_code = *first.exit_code;
    outcome.report = reports();
    outcome.json = first.json;
  } else {
    // The user stopped the job before node 0 was up.
    Failure stopped = failure_at(0, FailureKind::signal, "");
    stopped.status = {agent::ExitStatus::How::signaled, signo_, false};
    outcome.exit_code = exit_code_of(stopped);
    outcome.cause = std::move(stopped);
  }
  return outcome;
}

// --- events ---

void RemoteJob::on_ready(int node, RemoteActions& out) {
  Host& one = host(node);
  if (one.state != Host::State::starting) return;
  one.state = Host::State::up;
  if (stop_signal_ != 0) out.emplace_back(PassSignal{node, stop_signal_});
}

void RemoteJob::on_message(int node, const AgentMessage& message) {
  Host& one = host(node);
  switch (message.kind) {
    case AgentMessage::Kind::ready:
      break;
    case AgentMessage::Kind::report:
      one.report.push_back(message.text);
      break;
    case AgentMessage::Kind::json:
      one.json = message.text;
      break;
    case AgentMessage::Kind::end:
      one.exit_code = std::atoi(message.text.c_str());
      break;
  }
}

void RemoteJob::on_not_run(TimePoint now, const HostNotRun& event, RemoteActions& out) {
  if (start_directly({event.node, {}, event.why}, out)) return;
  host(event.node).state = Host::State::gone;
  fail(now, not_started(event.node, event.why), 1, out);
}

void RemoteJob::on_gone(TimePoint now, const HostGone& gone, RemoteActions& out) {
  Host& one = host(gone.node);
  const bool was_up = one.state == Host::State::up;
  if (!was_up && start_directly(gone, out)) return;
  one.state = Host::State::gone;
  if (!was_up) {
    const StartFailure failure = start_failure(gone);
    Failure cause = failure_at(gone.node, FailureKind::join, explain(failure));
    if (node_0_waited_in_vain()) return blame(one.abandoned ? did_not_answer(gone.node) : std::move(cause));
    fail(now, std::move(cause), is_usage_error(failure) ? 2 : 1, out);
  } else if (gone.node != 0) {
    // The other nodes learn of the failure from their coordinator. Only nodes that it cannot reach must be
    // forced to end.
    if (one.exit_code == 0) return;
    if (!suspect_) suspect_ = lost(gone);
    if (plan_.fixed_size) begin_end(now);
  } else if (one.exit_code) {
    if (count(Host::State::starting) > 0) give_up_late_at_ = now + late_margin;
    begin_end(now);
  } else {
    fail(now, lost(gone), 1, out);
  }
}

void RemoteJob::on_signal(TimePoint now, const UserSignal& signal, RemoteActions& out) {
  if (!signal.stops) {
    for (const int node : in({Host::State::up})) out.emplace_back(PassSignal{node, signal.signo});
    return;
  }
  if (signo_ == 0) signo_ = signal.signo;
  stop_all(now, signal.signo, out);
}

void RemoteJob::on_timer(TimePoint now, RemoteActions& out) {
  if (give_up_late_at_ && now >= *give_up_late_at_) give_up_starting(out);
  if (hurry_at_ && now >= *hurry_at_) return hurry(now, out);
  for (const int node : in({Host::State::starting})) {
    std::optional<TimePoint>& deadline = host(node).start_deadline;
    if (!deadline || now < *deadline) continue;
    deadline.reset();
    fail(now,
         not_started(node,
                     "it did not start within " + to_words(plan_.job.join_timeout) + " (--join-timeout)"),
         1, out);
    abandon({node}, out);
  }
}

// --- decisions ---

void RemoteJob::start_more(TimePoint now, RemoteActions& out) {
  if (waiting_.empty()) return;
  std::map<int, int> starting;  // by starter
  for (const int node : in({Host::State::starting})) ++starting[starter_of(node)];
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const int node = *next;
    const int starter = starter_of(node);
    const bool can = starter == started_from_here || host(starter).state != Host::State::waiting;
    if (!can || starting[starter] >= fan_out) {
      ++next;
      continue;
    }
    ++starting[starter];
    host(node).state = Host::State::starting;
    host(node).start_deadline = now + plan_.job.join_timeout;
    out.emplace_back(RunHost{node, host(node).directly});
    next = waiting_.erase(next);
  }
}

// This machine may have a key, a name or a route that the starter does not have. False: it would meet the
// same failure.
bool RemoteJob::start_directly(const HostGone& gone, RemoteActions& out) {
  Host& one = host(gone.node);
  const int starter = starter_of(gone.node);
  const bool is_wanted = hurry_ == Hurry::none && !one.abandoned && one.state == Host::State::starting;
  if (starter == started_from_here || !is_wanted || has_answered(start_failure(gone))) return false;
  one.directly = true;
  one.state = Host::State::waiting;
  waiting_.insert(gone.node);
  if (std::exchange(some_directly_, true)) return true;
  out.emplace_back(agent::LogMessage{
      agent::Severity::warning, "host " + name(starter) + " " + explain(start_failure(gone)) +
                                    "; this machine connects to such hosts itself (--tree-width=0: to all)"});
  return true;
}

void RemoteJob::fail(TimePoint now, Failure failure, int exit_code, RemoteActions& out) {
  // A host that fails during the stop fails because of the stop.
  const bool is_over = cause_ || signo_ != 0 || hosts_.front().exit_code;
  if (is_over) return;
  cause_ = std::move(failure);
  cause_code_ = exit_code;
  stop_all(now, SIGHUP, out);  // SIGHUP gives no preemption notice (--preempt-signal)
}

// Node 0 has ended, and the others of its job have had the time to end: a host that is still starting is too
// late, and may be the cause.
void RemoteJob::give_up_starting(RemoteActions& out) {
  give_up_late_at_.reset();
  const std::vector<int> late = in({Host::State::starting});
  if (!late.empty() && node_0_waited_in_vain()) blame(did_not_answer(late.front()));
  abandon(late, out);
}

// As node 0 has ended, it may have: for a host that had not come.
bool RemoteJob::node_0_waited_in_vain() const {
  return plan_.fixed_size && signo_ == 0 && hosts_.front().exit_code == 1;
}

void RemoteJob::blame(Failure failure) {
  if (cause_) return;
  cause_ = std::move(failure);
  cause_code_ = 1;
}

void RemoteJob::abandon(const std::vector<int>& starting, RemoteActions& out) {
  for (const int node : starting) {
    if (std::exchange(host(node).abandoned, true)) continue;
    out.emplace_back(Disconnect{node});
    out.emplace_back(SignalHost{node, SIGTERM});
  }
}

void RemoteJob::stop_all(TimePoint now, int signo, RemoteActions& out) {
  stop_signal_ = signo;
  for (const int node : in({Host::State::up})) out.emplace_back(PassSignal{node, signo});
  abandon(in({Host::State::starting}), out);
  begin_end(now);
}

// From here on, no host is started, and each must end within a time limit.
void RemoteJob::begin_end(TimePoint now) {
  if (hurry_ != Hurry::none) return;
  hurry_ = Hurry::waiting;
  hurry_at_ = now + patience();
}

void RemoteJob::hurry(TimePoint now, RemoteActions& out) {
  const std::vector<int> rest = in({Host::State::starting, Host::State::up});
  switch (hurry_) {
    case Hurry::none:
      return;
    case Hurry::waiting:
      if (!cause_ && signo_ == 0 && suspect_ && host(0).state != Host::State::gone) {
        cause_ = suspect_;
        cause_code_ = 1;
      }
      if (stop_signal_ == 0) {
        stop_all(now, SIGHUP, out);
        hurry_at_ = now + patience();
        return;
      }
      for (const int node : rest) out.emplace_back(Disconnect{node});
      hurry_ = Hurry::disconnected;
      break;
    case Hurry::disconnected:
      for (const int node : rest) out.emplace_back(SignalHost{node, SIGKILL});
      hurry_ = Hurry::killed;
      break;
    case Hurry::killed:
      for (const int node : rest) {
        out.emplace_back(
            agent::LogMessage{agent::Severity::warning,
                              "the process for host " + name(node) + " on this machine survived SIGKILL"});
        host(node).state = Host::State::gone;
      }
      break;
  }
  hurry_at_ = now + last_pause;
}

void RemoteJob::end_when_all_gone(RemoteActions& out) {
  const bool some_are_there = count(Host::State::starting) + count(Host::State::up) > 0;
  const bool some_will_be = hurry_ == Hurry::none && count(Host::State::waiting) > 0;
  if (some_are_there || some_will_be) return;
  ended_ = true;
  out.emplace_back(RemoteEnded{});
}

void RemoteJob::arm(RemoteActions& out) const {
  std::optional<TimePoint> next = hurry_at_;
  if (give_up_late_at_ && (!next || *give_up_late_at_ < *next)) next = give_up_late_at_;
  for (const int node : in({Host::State::starting})) {
    const std::optional<TimePoint> deadline = hosts_[static_cast<std::size_t>(node)].start_deadline;
    if (hurry_ == Hurry::none && deadline && (!next || *deadline < *next)) next = deadline;
  }
  if (next) out.emplace_back(ArmRemoteTimer{*next});
}

// --- queries ---

int RemoteJob::count(Host::State state) const {
  return static_cast<int>(
      std::count_if(hosts_.begin(), hosts_.end(), [&](const Host& one) { return one.state == state; }));
}

std::vector<int> RemoteJob::in(std::initializer_list<Host::State> states) const {
  std::vector<int> nodes;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (std::find(states.begin(), states.end(), hosts_[i].state) != states.end())
      nodes.push_back(static_cast<int>(i));
  }
  return nodes;
}

int RemoteJob::starter_of(int node) const {
  const auto at = static_cast<std::size_t>(node);
  return hosts_[at].directly ? started_from_here : plan_.hosts[at].starter;
}

const std::string& RemoteJob::name(int node) const {
  return plan_.hosts[static_cast<std::size_t>(node)].name;
}

Duration RemoteJob::patience() const { return plan_.job.stop_timeout.longest() + notice_ + end_margin; }

Failure RemoteJob::failure_at(int node, FailureKind kind, std::string why) const {
  Failure failure;
  failure.kind = kind;
  failure.node_rank = node;
  failure.host = name(node);
  failure.why = std::move(why);
  return failure;
}

Failure RemoteJob::not_started(int node, const std::string& why) const {
  return failure_at(node, FailureKind::join,
                    "cannot start on host " + name(node) + " (node " + std::to_string(node) + "): " + why);
}

Failure RemoteJob::did_not_answer(int node) const {
  const std::string& way = plan_.hosts[static_cast<std::size_t>(node)].command.front();
  return not_started(node, "it did not answer while node 0 waited; '" + way + " " + name(node) +
                               " true' must succeed without a prompt");
}

StartFailure RemoteJob::start_failure(const HostGone& gone) const {
  const RemoteHost& planned = plan_.hosts[static_cast<std::size_t>(gone.node)];
  return {name(gone.node), planned.login, gone.node, planned.command.front(), gone.status, gone.stderr_tail};
}

// The failure of a host that was up: its own report, if it sent one.
Failure RemoteJob::lost(const HostGone& gone) const {
  const Host& one = hosts_[static_cast<std::size_t>(gone.node)];
  if (one.exit_code && !one.report.empty()) {
    constexpr std::string_view failed = "failed: ";
    const std::string line = first_line_of(one.report.back());
    Failure failure =
        failure_at(gone.node, FailureKind::agent,
                   name(gone.node) + ": " + (line.starts_with(failed) ? line.substr(failed.size()) : line));
    failure.remedy = remedy_in(one.report.back());
    return failure;
  }
  return failure_at(gone.node, FailureKind::node_lost,
                    "its dlaunch was killed, or the connection to it was cut; the process for it here " +
                        agent::describe(gone.status));
}

// Node 0's report, after one line for each node that did not find node 0 or was rejected by it.
std::vector<std::string> RemoteJob::reports() const {
  constexpr std::size_t most_others = 4;
  std::vector<std::string> out;
  const Host& first = hosts_.front();
  const std::string own = first.report.empty() ? "" : first_line_of(first.report.back());
  std::set<std::string> seen{own};
  for (std::size_t i = 1; i < hosts_.size() && !own.empty() && signo_ == 0 && out.size() < most_others; ++i) {
    if (hosts_[i].report.empty()) continue;
    const std::string line = first_line_of(hosts_[i].report.back());
    if (seen.insert(line).second) out.push_back(name(static_cast<int>(i)) + ": " + line);
  }
  out.insert(out.end(), first.report.begin(), first.report.end());
  return out;
}

}  // namespace dlaunch::launcher
