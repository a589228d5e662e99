#include "agent/node/runner.h"

#include <algorithm>
#include <utility>

#include "agent/model/root_cause.h"
#include "store/base/overloaded.h"
#include "store/contract/worker_env.h"

namespace dlaunch::agent {
namespace {

// Connections that have not sent a message yet; more are dropped.
constexpr std::size_t max_unproven = 1024;

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

WorkerPlace place_of(const NodeSpec& node, int local_rank) {
  return node.places.empty() ? WorkerPlace{} : node.places[static_cast<std::size_t>(local_rank)];
}

}  // namespace

Runner::Runner(Dependencies dependencies, Config config)
    : dependencies_(dependencies),
      config_(std::move(config)),
      group_(config_.node, config_.job.stop_timeout),
      member_(config_.job, config_.node, config_.build, dependencies_.clock.now()),
      began_(dependencies_.clock.now()),
      round_began_(began_) {
  dependencies_.spawner.set_handler(*this);
  if (config_.pmi == nullptr) return;
  pmi_.emplace(PmiService::Dependencies{*config_.pmi, dependencies_.reporter, dependencies_.clock,
                                        dependencies_.timers, config_.job.mpi, config_.node.pages_dir,
                                        config_.job.hang_note,
                                        [this](PmiEnter enter) { take(MemberEvent(std::move(enter))); },
                                        [this](WorkerAborted aborted) { take(GroupEvent(aborted)); }});
}

Runner::~Runner() {
  for (TimerId timer : {stop_timer_, member_timer_, coordinator_timer_}) dependencies_.timers.disarm(timer);
}

void Runner::begin() {
  if (config_.serves) {
    const Address& own = config_.find_leader ? config_.own : config_.job.endpoint(*config_.serves);
    coordinator_.emplace(config_.job, own, config_.node.agent, dependencies_.clock.now(), config_.unix_us,
                         config_.had_predecessor);
    for (const auto& action : coordinator_->begin()) act(action);
  }
  for (const auto& action : member_.begin()) act(action);
  work();
}

void Runner::on_signal(int signo) {
  const bool stops = std::find(config_.node.stop_signals.begin(), config_.node.stop_signals.end(), signo) !=
                     config_.node.stop_signals.end();
  if (member_outcome_ && stops) {  // it only leads
    Failure cause;
    cause.kind = FailureKind::signal;
    cause.host = config_.node.host;
    cause.node_rank = config_.node.node_rank;
    cause.status = {ExitStatus::How::signaled, signo, false};
    post(CoordinatorEvent{AgentLeaves{std::move(cause)}});
  } else {
    post(MemberEvent{SignalCame{signo}});
  }
  work();
}

void Runner::on_election(std::optional<TimePoint> leads_until,
                         const std::optional<std::string>& left_behind) {
  if (left_behind) {
    const auto ending = parse_job_ending(*left_behind);
    if (!ending) dependencies_.reporter.report({Severity::debug, ending.error().message()});
    if (ending && member_.was_in(*ending)) {
      job_was_over_ = true;
      post(MemberEvent{JobAlreadyEnded{*ending}});
    }
  }
  if (!job_was_over_) post(CoordinatorEvent{LeadsUntil{leads_until}});
  work();
}

void Runner::ask_for_ranks(int rank_with_lines) { take(CoordinatorEvent(RanksWanted{rank_with_lines})); }

std::optional<JobEnding> Runner::job_ending() const {
  return coordinator_ ? coordinator_->ending() : std::nullopt;
}

// --- events from outside ---

void Runner::on_started(ProcKey key, std::int64_t pid) {
  if (key.round != group_.round()) return;
  report_worker(EventKind::started, static_cast<int>(key.local_rank), pid, "");
  post(GroupEvent{WorkerStarted{static_cast<int>(key.local_rank), pid}});
  work();
}

void Runner::on_spawn_failed(ProcKey key, const std::string& why) {
  if (key == health_check) {
    post(MemberEvent{HealthChecked{"it could not be started: " + why}});
    return work();
  }
  if (key.round != group_.round()) return;
  post(GroupEvent{WorkerSpawnFailed{static_cast<int>(key.local_rank), why}});
  work();
}

void Runner::on_exited(ProcKey key, std::int64_t pid, const WorkerExit& exit) {
  if (key == health_check) {
    const bool well = exit.status.how == ExitStatus::How::exited && exit.status.number == 0;
    const std::string words = last_line(exit.tail);
    post(MemberEvent{HealthChecked{well ? "" : describe(exit.status) + (words.empty() ? "" : ": " + words)}});
    return work();
  }
  if (key.round != group_.round()) return;
  WorkerExited exited{static_cast<int>(key.local_rank), pid, exit};
  if (!exit.status.success() && config_.records != nullptr)
    exited.exit.exit_record = config_.records->exit_record(key, current_.world_size);
  if (exit.status.success() && pmi_) pmi_->on_returned_0(exited.local_rank);
  post(GroupEvent{std::move(exited)});
  work();
}

void Runner::on_leftovers(int count, const std::string& example) {
  post(GroupEvent{LeftoversRemain{count, example}});
  work();
}

void Runner::on_all_gone() {
  post(GroupEvent{AllGone{}});
  work();
}

void Runner::on_workers_lost(const std::string& keeper) {
  post(GroupEvent{WorkersLost{keeper}});
  post(MemberEvent{HealthChecked{keeper + " was killed, and the check with it"}});  // if one runs
  work();
}

void Runner::on_spawner_lost(const std::string& why) {
  post(MemberEvent{KeeperLost{why}});
  work();
}

void Runner::on_timer(TimerId timer) {
  if (timer == stop_timer_) {
    stop_timer_ = {};
    post(GroupEvent{StopDeadline{}});
  } else if (timer == member_timer_) {
    member_timer_ = {};
    post(MemberEvent{MemberTimer{}});
  } else if (timer == coordinator_timer_) {
    coordinator_timer_ = {};
    post(CoordinatorEvent{CoordinatorTimer{}});
  }
  work();
}

ConnectionHandler& Runner::on_agent_connection(ConnId conn, const Address& peer) {
  const MemberId id = next_member_++;
  const bool are_many = member_links_.size() >= max_unproven + static_cast<std::size_t>(config_.job.nnodes);
  if (are_many && end_unauthenticated(TimePoint::max())) {
    dependencies_.reporter.report(
        {Severity::warning, "too many agent connections: dropping a silent one for " + to_string(peer)});
  }
  MemberLink::Config link{
      dependencies_.network,
      dependencies_.reporter,
      config_.secret.empty() ? nullptr : config_.on_proved,
      [this, id](std::vector<CoordinatorEvent> events, bool over) {
        if (over) drop_member(id);
        for (CoordinatorEvent& event : events) post(std::move(event));
        work();
      },
  };
  auto member = std::make_unique<MemberLink>(std::move(link),
                                             MemberLink::Peer{id, conn, peer, dependencies_.clock.now()},
                                             CoordinatorHandshake(config_.secret, draw_nonce()));
  return *member_links_.emplace(id, std::move(member)).first->second;
}

bool Runner::end_unauthenticated(TimePoint came_before) {
  const auto silent = std::find_if(member_links_.begin(), member_links_.end(), [&](const auto& m) {
    return !m.second->is_proven() && m.second->came() < came_before;
  });
  if (silent == member_links_.end()) return false;
  drop_member(silent->first);
  return true;
}

std::string Runner::draw_nonce() const {
  return config_.secret.empty() || !config_.draw_nonce ? "" : config_.draw_nonce();
}

// --- stepping ---

void Runner::post(GroupEvent event) { events_.emplace_back(std::move(event)); }
void Runner::post(MemberEvent event) { events_.emplace_back(std::move(event)); }
void Runner::post(CoordinatorEvent event) { events_.emplace_back(std::move(event)); }

template <class E>
void Runner::take(E event) {
  post(std::move(event));
  work();
}

void Runner::work() {
  if (working_) return;
  working_ = true;
  while (!events_.empty()) {
    const auto event = std::move(events_.front());
    events_.pop_front();
    const TimePoint now = dependencies_.clock.now();
    std::visit(Overloaded{[&](const GroupEvent& e) {
                            for (const auto& action : group_.step(now, e)) act(action);
                          },
                          [&](const MemberEvent& e) { step_member(now, e); },
                          [&](const CoordinatorEvent& e) {
                            if (!coordinator_) return;
                            for (const auto& action : coordinator_->step(now, e)) act(action);
                          },
                          [&](const Heard& heard) {
                            if (heard.link == link_number_) step_member(now, heard.event);
                          }},
               event);
  }
  working_ = false;
  const Phase phase{group_.state(), group_.round(), round_done_};
  if (std::exchange(phase_, phase) != phase && config_.on_phase) config_.on_phase();
  finish_if_over();
}

void Runner::step_member(TimePoint now, const MemberEvent& event) {
  for (const auto& action : member_.step(now, event)) act(action);
  const bool follows_another = member_.has_leader() && !link_is_local_;
  if (std::exchange(follows_another_, follows_another) != follows_another)
    post(CoordinatorEvent{FollowsAnother{follows_another}});
}

// --- actions ---

void Runner::act(const GroupAction& action) {
  std::visit(Overloaded{
                 [&](const SpawnWorker& a) { start_worker(a.local_rank); },
                 [&](const SignalAll& a) { dependencies_.spawner.signal_all(a.signo); },
                 [&](const KillAll&) { dependencies_.spawner.kill_all(); },
                 [&](const ArmStopDeadline& a) { arm(stop_timer_, a.at); },
                 [&](const DisarmStopDeadline&) {
                   dependencies_.timers.disarm(stop_timer_);
                   stop_timer_ = {};
                 },
                 [&](const RoundFailed& a) {
                   const Failure& failure = a.failure;
                   if (!at_failure_) at_failure_ = group_progress();
                   if (!is_suspect(failure) && failure.local_rank >= 0)
                     report_worker(EventKind::failed, failure.local_rank, failure.pid, describe_end(failure));
                   post(MemberEvent{a});
                 },
                 [&](const RoundDone& a) {
                   round_done_ = true;
                   report_times();
                   post(MemberEvent{a});
                 },
                 [&](const RoundStopped& a) {
                   if (config_.records != nullptr && !a.all_returned_0)
                     config_.records->keep(last_node_status(parts()));
                   report_times();
                   post(MemberEvent{a});
                 },
                 [&](const RoundStuck& a) {
                   RoundStuck named = a;
                   named.failure.why.insert(0, dependencies_.spawner.give_up() + " ");
                   post(MemberEvent{std::move(named)});
                 },
                 [&](const LogMessage& a) { dependencies_.reporter.report(a); },
             },
             action);
}

void Runner::act(const MemberAction& action) {
  std::visit(Overloaded{
                 [&](const RunHealthCheck&) { run_health_check(); },
                 [&](const KillHealthCheck&) { dependencies_.spawner.kill_all(); },
                 [&](const Dial& a) { dial(a.endpoint); },
                 [&](const ProbeEndpoint& a) { ask(a.endpoint); },
                 [&](const Disconnect&) { disconnect(); },
                 [&](const ToCoordinator& a) { send_to_coordinator(a.message); },
                 [&](const ToGroup& a) {
                   if (const auto* start = std::get_if<StartWorkers>(&a.event)) {
                     current_ = start->world;
                     round_began_ = dependencies_.clock.now();
                     round_done_ = false;
                     at_failure_.reset();
                     if (pmi_) pmi_->begin(current_, *current_.member(config_.node.agent));
                   }
                   post(a.event);
                 },
                 [&](const ForwardSignal& a) { dependencies_.spawner.signal_all(a.signo); },
                 [&](const RenewLease& a) { dependencies_.spawner.keep_alive(a.until); },
                 [&](const LookAtWorkers& a) { look_at_workers(a.in_full); },
                 [&](const RequestStack& a) { request_stack(a.rank); },
                 [&](const InspectWorkers&) { inspect_workers(); },
                 [&](const ReportRanks& a) {
                   if (config_.node_ranks)
                     send_to_coordinator(RanksReport{config_.node_ranks(a.rank_with_lines)});
                 },
                 [&](const ArmMemberTimer& a) { arm(member_timer_, a.at); },
                 [&](const PmiRelease& a) {
                   if (pmi_) pmi_->on_release(a);
                 },
                 [&](const LatenessReport& a) {
                   if (config_.on_lateness) config_.on_lateness(a.lateness);
                 },
                 [&](const MemberEnded& a) {
                   member_outcome_ = a.outcome;
                   if (!link_is_local_) post(CoordinatorEvent{AgentLeaves{a.outcome.cause}});
                 },
                 [&](const LogMessage& a) { dependencies_.reporter.report(a); },
             },
             action);
}

void Runner::act(const CoordinatorAction& action) {
  std::visit(Overloaded{
                 [&](const ToMember& a) { send_to_member(a.member, a.message); },
                 [&](const DropMember& a) { drop_member(a.member); },
                 [&](const OpenStore& a) {
                   if (config_.open_store) config_.open_store(a.round, a.blocked_hosts);
                   for (const auto& [id, link] : member_links_) link->report_proof();
                 },
                 [&](const ArmCoordinatorTimer& a) { arm(coordinator_timer_, a.at); },
                 [&](const CoordinatorEnded&) { coordinator_ended_ = true; },
                 [&](const Event& e) {
                   if (config_.on_event) config_.on_event(e);
                 },
                 [&](const LogMessage& a) { dependencies_.reporter.report(a); },
             },
             action);
}

void Runner::report_worker(EventKind kind, int local_rank, std::int64_t pid, std::string text) {
  const WorldMember* own = current_.member(config_.node.agent);
  if (!config_.on_event || own == nullptr) return;
  Event event{kind, current_.round, own->node_rank, config_.node.host, own->base_rank + local_rank, pid};
  event.text = std::move(text);
  event.nodes = current_.nodes;
  event.world_size = current_.world_size;
  event.local_rank = local_rank;
  event.role_rank = own->role_base + local_rank;
  event.role_world_size = own->role_world_size;
  event.restarts = current_.restarts_used;
  config_.on_event(event);
}

void Runner::start_worker(int local_rank) {
  const ProcKey key{current_.round, static_cast<std::uint32_t>(local_rank)};
  if (config_.records != nullptr) config_.records->prepare(key);
  const WorldMember& own = *current_.member(config_.node.agent);
  const WorkerPlace place = place_of(config_.node, local_rank);
  std::vector<std::string> arguments = worker_arguments(config_.node.command, local_rank);
  // It asks for the rank's variables, which are not known yet, and becomes the worker.
  if (config_.job.mpi == MpiStart::pmix)
    arguments.insert(arguments.begin(), {config_.node.pmix_program, "start"});
  Command command{std::move(arguments),
                  worker_environment(config_.job, config_.node, current_, local_rank, config_.inherited),
                  own.base_rank + local_rank,
                  current_.leader,
                  place.cpus,
                  place.memory_nodes,
                  pmi_.has_value(),
                  own.slots > config_.node.cpus ? own.slots : 0};
  if (pmi_) pmi_->add_variables(command.environment, local_rank);
  if (const auto clock = member_.shared_clock(dependencies_.clock.now()))
    command.environment.emplace_back(
        env::clock, std::to_string(clock->unix_minus_steady_ns) + "," + std::to_string(clock->error_ns));
  dependencies_.spawner.spawn(key, command);
}

void Runner::run_health_check() {
  Command check{{"/bin/sh", "-c", config_.node.health_check},
                {{std::string(env::job_id), config_.job.id},
                 {std::string(env::round), std::to_string(current_.round)}}};
  dependencies_.spawner.spawn(health_check, check);
}

void Runner::dial(std::size_t endpoint) {
  ++link_number_;
  const auto leader = config_.find_leader ? config_.find_leader() : std::nullopt;
  link_is_local_ = config_.find_leader ? leader && leader->here : config_.serves == endpoint;
  if (link_is_local_) {
    hear(LinkUp{});
  } else if (config_.find_leader && !leader) {
    hear(LinkDown{{LossKind::released, "none is elected yet"}});
  } else {
    dial(leader ? leader->address : config_.job.endpoint(endpoint));
  }
}

void Runner::dial(const Address& address) {
  if (!link_) {
    link_ = std::make_unique<CoordinatorLink>(
        dependencies_.network, [this] { return MemberHandshake(config_.secret, draw_nonce()); },
        [this](std::vector<MemberEvent> events) {
          for (MemberEvent& event : events) hear(std::move(event));
          work();
        });
  }
  link_->dial(address, dependencies_.clock.now() + Member::connect_attempt(config_.job));
}

void Runner::ask(std::size_t endpoint) {
  probe_.reset();
  if (config_.serves == endpoint) {
    const bool answers = coordinator_->state() != Coordinator::State::ended;
    post(MemberEvent{EndpointProbed{endpoint, answers, coordinator_->leads(), false}});
    return;
  }
  probe_ = std::make_unique<EndpointProbe>(dependencies_.network, config_.job.id,
                                           MemberHandshake(config_.secret, draw_nonce()),
                                           [this](const EndpointProbed& answer) {
                                             post(MemberEvent{answer});
                                             work();
                                           });
  probe_->ask(endpoint, config_.job.endpoint(endpoint), dependencies_.clock.now() + Member::probe_timeout);
}

void Runner::disconnect() {
  ++link_number_;
  if (std::exchange(link_is_local_, false)) {
    post(CoordinatorEvent{MemberLost{0, {LossKind::cut, "it searches for another coordinator"}}});
  } else if (link_) {
    link_->close();
  }
}

void Runner::hear(MemberEvent event) { events_.emplace_back(Heard{link_number_, std::move(event)}); }

void Runner::send_to_coordinator(const Message& message) {
  if (link_is_local_) {
    post(CoordinatorEvent{FromMember{0, message}});
  } else if (link_) {
    link_->send(message);
  }
}

void Runner::send_to_member(MemberId member, const Message& message) {
  if (member == 0) {
    if (link_is_local_) hear(FromCoordinator{message});
  } else if (const auto found = member_links_.find(member); found != member_links_.end()) {
    found->second->send(message);
  }
}

void Runner::drop_member(MemberId member) {
  if (member == 0 && link_is_local_) {
    hear(LinkDown{{LossKind::released, "this node's coordinator ended the connection"}});
    link_is_local_ = false;
    return;
  }
  const auto found = member_links_.find(member);
  if (found == member_links_.end()) return;
  found->second->close();
  member_links_.erase(found);
}

void Runner::arm(TimerId& timer, TimePoint at) {
  dependencies_.timers.disarm(timer);
  timer = dependencies_.timers.arm(at, *this);
}

void Runner::finish_if_over() {
  if (outcome_ || !member_outcome_) return;
  probe_.reset();
  if (link_) {
    link_->close();
    link_.reset();
  }
  const bool leads = coordinator_ && coordinator_->state() != Coordinator::State::standby;
  if (leads && !coordinator_ended_) return;
  outcome_ = member_outcome_;
  if (config_.on_ended) config_.on_ended();
}

}  // namespace dlaunch::agent
