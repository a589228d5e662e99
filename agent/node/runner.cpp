#include "agent/node/runner.h"

#include <algorithm>
#include <utility>

#include "agent/model/root_cause.h"
#include "store/base/overloaded.h"
#include "store/contract/worker_env.h"

namespace dlaunch::agent {
namespace {

// One attempt to connect; the Member decides about the next.
constexpr Duration connect_attempt = std::chrono::seconds(10);
// Where there are several endpoints, one that does not answer is not waited for so long.
constexpr Duration short_attempt = std::chrono::seconds(2);
// Connections that may be held by whoever has not said anything yet.
constexpr std::size_t max_strangers = 1024;

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line.append(line.empty() ? "" : " ").append(word);
  return line;
}

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
      return done ? "done" : "waiting";  // here, while others run; between two rounds
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

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

WorkerPlace place_of(const NodeSpec& node, int local_rank) {
  return node.places.empty() ? WorkerPlace{} : node.places[static_cast<std::size_t>(local_rank)];
}

}  // namespace

class Runner::Link final : public ConnectionHandler {
 public:
  explicit Link(Runner& runner) : runner_(runner) {}

  void dial(const Address& address, TimePoint deadline) {
    reader_ = FrameReader::from_coordinator();
    conn_ = runner_.dependencies_.network.connect(address, deadline, *this);
  }
  void send(const Message& message) {
    runner_.dependencies_.network.send(conn_, as_byte_span(encode(message)));
  }
  void close() {
    runner_.dependencies_.network.close(conn_);
    conn_ = {};
  }

  void on_connected(ConnId conn) override {
    runner_.dependencies_.network.send(conn, as_byte_span(greeting));
    handshake_ = MemberHandshake(runner_.config_.secret, runner_.draw_nonce());
    if (handshake_.is_needed()) {
      send(handshake_.hello());
    } else {
      runner_.hear(LinkUp{});
    }
    runner_.work();
  }
  void on_received(ConnId conn, ByteSpan bytes) override {
    reader_.append(bytes);
    while (true) {
      auto message = reader_.next();
      if (!message) {
        runner_.dependencies_.network.close(conn);
        conn_ = {};
        runner_.hear(LinkDown{message.error().message()});
        break;
      }
      if (!*message) break;
      if (const auto* challenge = std::get_if<Challenge>(&**message)) {
        answer(*challenge);
      } else if (auto* refused = std::get_if<Refused>(&**message)) {
        hear_refusal(std::move(*refused));
      } else {
        runner_.hear(FromCoordinator{std::move(**message)});
      }
    }
    runner_.work();
  }
  void on_closed(ConnId, const Error& reason) override {
    conn_ = {};
    runner_.hear(
        LinkDown{reason.why.empty() ? reason.message() : reason.why, reason.kind == ErrorKind::timeout});
    runner_.work();
  }

 private:
  void hear_refusal(Refused refused) {
    if (handshake_.is_needed()) runner_.hear(LinkUp{});  // unless it is there already
    if (refused.why == bare_refusal) refused.why = explain_bare_refusal(handshake_.is_needed());
    runner_.hear(FromCoordinator{std::move(refused)});
  }
  void answer(const Challenge& challenge) {
    auto proof = handshake_.answer(challenge);
    runner_.hear(LinkUp{});
    if (proof) {
      send(*proof);
    } else {
      runner_.hear(FromCoordinator{Refused{proof.error().why}});
    }
  }

  Runner& runner_;
  ConnId conn_;
  FrameReader reader_ = FrameReader::from_coordinator();
  MemberHandshake handshake_{"", ""};
};

class Runner::MemberEnd final : public ConnectionHandler {
 public:
  MemberEnd(Runner& runner, MemberId id, ConnId conn, const Address& peer)
      : runner_(runner),
        id_(id),
        conn_(conn),
        peer_(peer),
        came_(runner.dependencies_.clock.now()),
        handshake_(runner.config_.secret, runner.draw_nonce()) {}

  void send(const Message& message) {
    runner_.dependencies_.network.send(conn_, as_byte_span(encode(message)));
  }
  void close() { runner_.dependencies_.network.close(conn_); }
  void say_if_proved() const {
    const bool has_proved = handshake_.is_done() && !runner_.config_.secret.empty();
    if (has_proved && runner_.config_.on_proved) runner_.config_.on_proved(peer_.host);
  }
  // The coordinator may know of it.
  [[nodiscard]] bool is_proven() const { return spoken_ && handshake_.is_done(); }
  [[nodiscard]] TimePoint came() const { return came_; }

  void on_received(ConnId, ByteSpan bytes) override {
    reader_.append(bytes);
    while (true) {
      auto message = reader_.next();
      if (!message) return refuse(message.error().why);
      if (!*message) break;
      spoken_ = true;
      if (handshake_.is_done() && std::holds_alternative<Hello>(**message))
        return refuse("this job has no secret, but that agent was given one (--token-file, DLAUNCH_TOKEN)");
      if (handshake_.is_done()) {
        runner_.post(FromMember{id_, std::move(**message), peer_.host});
        continue;
      }
      auto answer = handshake_.hear(**message);
      if (!answer) return refuse(answer.error().why);
      if (*answer) send(**answer);
      say_if_proved();
    }
    runner_.work();
  }
  void on_closed(ConnId, const Error& reason) override {
    report_loss(reason.why.empty() ? reason.message() : reason.why, reason.kind == ErrorKind::timeout);
  }

 private:
  // Destroys this object.
  void report_loss(const std::string& why, bool silent) {
    Runner& runner = runner_;
    const MemberId id = id_;
    runner.drop_member(id);
    runner.post(MemberLost{id, why, silent});
    runner.work();
  }

  // Likewise.
  void refuse(const std::string& why) {
    runner_.dependencies_.reporter.report(
        {Severity::warning, "refused an agent at " + to_string(peer_) + ": " + why});
    runner_.post(CoordinatorEvent{AgentRefused{"an agent at " + peer_.host, why}});
    send(Refused{handshake_.is_done() ? why : bare_refusal});
    report_loss(why, false);
  }

  Runner& runner_;
  MemberId id_;
  ConnId conn_;
  Address peer_;
  TimePoint came_;
  CoordinatorHandshake handshake_;
  FrameReader reader_ = FrameReader::from_member();
  bool spoken_ = false;  // a whole message came
};

Runner::Runner(Dependencies dependencies, Config config)
    : dependencies_(dependencies),
      config_(std::move(config)),
      group_(config_.node, config_.job.stop_timeout),
      member_(config_.job, config_.node, config_.build, dependencies_.clock.now()),
      began_(dependencies_.clock.now()),
      round_began_(began_) {
  dependencies_.spawner.set_handler(*this);
}

Runner::~Runner() {
  for (TimerId timer : {stop_timer_, member_timer_, coordinator_timer_}) dependencies_.timers.disarm(timer);
}

void Runner::begin() {
  if (config_.serves) {
    const Address& own = config_.find_leader ? config_.own : config_.job.endpoint(*config_.serves);
    coordinator_.emplace(config_.job, own, config_.node.agent, dependencies_.clock.now(), config_.unix_us);
    for (const auto& action : coordinator_->begin()) act(action);
  }
  for (const auto& action : member_.begin()) act(action);
  work();
}

JobStatus Runner::status() const {
  const TimePoint now = dependencies_.clock.now();
  JobStatus status;
  status.job = config_.job.id;
  status.program = joined(config_.node.command);
  status.version = config_.build;
  status.host = config_.node.host;
  const WorldMember* own = current_.member(config_.node.agent);
  status.node_rank = own != nullptr ? own->node_rank : config_.node.node_rank;
  status.nnodes = config_.job.nnodes;
  status.state = describe_state(member_.state(), group_.state(), round_done_);
  status.waiting_for = waiting_for();
  status.round = static_cast<int>(current_.round);
  status.world_size = current_.world_size;
  status.restarts_used = current_.restarts_used;
  status.max_restarts = config_.job.max_restarts;
  status.age_s = to_seconds(now - began_);
  status.state_age_s = to_seconds(now - round_began_);
  status.endpoint = to_string(config_.job.master);
  status.last_failure = member_.last_failure();
  if (own == nullptr || !group_.active()) return status;
  for (const WorkerGroup::Worker& worker : group_.workers()) {
    const int local_rank = static_cast<int>(status.workers.size());
    status.workers.push_back(
        {own->base_rank + local_rank, local_rank, worker.pid, describe(worker.state), ""});
  }
  return status;
}

std::string Runner::waiting_for() const {
  if (member_.is_checking()) return "its health check";
  if (member_.state() == Member::State::connecting) {
    if (config_.job.elected) return "a leader, elected at etcd (" + to_string(config_.job.master) + ")";
    return (config_.job.may_move() ? "a coordinator at " : "node 0 at ") + to_string(config_.job.master) +
           (config_.job.may_move() ? " or elsewhere" : "") +
           (member_.last_refusal().empty() ? "" : ": " + member_.last_refusal());
  }
  const bool leads = coordinator_ && coordinator_->state() != Coordinator::State::standby;
  if (leads) return coordinator_->waiting_for(dependencies_.clock.now());
  constexpr std::string_view told = "waiting for ";
  if (member_.last_notice().starts_with(told)) return member_.last_notice().substr(told.size());
  if (member_.state() == Member::State::joined) return "the other nodes";
  return "";
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

std::optional<JobEnding> Runner::job_ending() const {
  return coordinator_ ? coordinator_->ending() : std::nullopt;
}

// --- what the world reports ---

void Runner::on_started(ProcKey key, std::int64_t pid) {
  if (key.round != group_.round()) return;
  report_worker(EventKind::started, static_cast<int>(key.local_rank), pid, "");
  post(GroupEvent{WorkerStarted{static_cast<int>(key.local_rank), pid}});
  work();
}

void Runner::on_spawn_failed(ProcKey key, const std::string& why) {
  if (key == health_check) {
    post(MemberEvent{HealthChecked{"it could not be started: " + why}});
    work();
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
    work();
  }
  if (key.round != group_.round()) return;
  WorkerExited exited{static_cast<int>(key.local_rank), pid, exit};
  if (!exit.status.success() && config_.records != nullptr)
    exited.exit.exit_record = config_.records->exit_record(key, current_.world_size);
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
  post(MemberEvent{HealthChecked{keeper + " was killed, and with it the check"}});  // if one runs
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
  const bool are_many = member_ends_.size() >= max_strangers + static_cast<std::size_t>(config_.job.nnodes);
  if (are_many && end_unauthenticated(TimePoint::max())) {
    dependencies_.reporter.report(
        {Severity::warning, "too many agent connections: dropping a silent one for " + to_string(peer)});
  }
  return *member_ends_.emplace(id, std::make_unique<MemberEnd>(*this, id, conn, peer)).first->second;
}

bool Runner::end_unauthenticated(TimePoint came_before) {
  const auto silent = std::find_if(member_ends_.begin(), member_ends_.end(), [&](const auto& m) {
    return !m.second->is_proven() && m.second->came() < came_before;
  });
  if (silent == member_ends_.end()) return false;
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
  finish_if_over();
}

void Runner::step_member(TimePoint now, const MemberEvent& event) {
  for (const auto& action : member_.step(now, event)) act(action);
  const bool follows_another = member_.has_leader() && !link_is_local_;
  if (std::exchange(follows_another_, follows_another) != follows_another)
    post(CoordinatorEvent{FollowsAnother{follows_another}});
}

// --- carrying out ---

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
                   post(MemberEvent{a});
                 },
                 [&](const RoundStopped& a) { post(MemberEvent{a}); },
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
                   }
                   post(a.event);
                 },
                 [&](const ForwardSignal& a) { dependencies_.spawner.signal_all(a.signo); },
                 [&](const RenewLease& a) { dependencies_.spawner.keep_alive(a.until); },
                 [&](const LookAtWorkers& a) { look_at_workers(a.in_full); },
                 [&](const ArmMemberTimer& a) { arm(member_timer_, a.at); },
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
                   for (const auto& [id, end] : member_ends_) end->say_if_proved();
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
  const WorkerPlace place = place_of(config_.node, local_rank);
  dependencies_.spawner.spawn(
      key, {worker_arguments(config_.node.command, local_rank),
            worker_environment(config_.job, config_.node, current_, local_rank, config_.inherited),
            current_.member(config_.node.agent)->base_rank + local_rank, current_.leader, place.cpus,
            place.memory_nodes});
}

void Runner::look_at_workers(bool in_full) {
  WorkersSeen seen;
  if (config_.records != nullptr)
    seen.activity = config_.records->activity(current_.round, config_.node.slots);
  if (in_full) seen.group_progress = at_failure_ ? *at_failure_ : group_progress();
  post(MemberEvent{std::move(seen)});
}

std::vector<GroupProgress> Runner::group_progress() const {
  const WorldMember* own = current_.member(config_.node.agent);
  if (config_.records == nullptr || own == nullptr) return {};
  std::vector<GroupProgress> groups = config_.records->group_progress(
      current_.round, config_.node.slots, current_.world_size, dependencies_.clock.now());
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
    hear(LinkDown{"none is elected yet"});
  } else {
    dial(leader ? leader->address : config_.job.endpoint(endpoint));
  }
}

void Runner::dial(const Address& address) {
  if (!link_) link_ = std::make_unique<Link>(*this);
  const Duration attempt = config_.job.may_move() ? short_attempt : connect_attempt;
  link_->dial(address, dependencies_.clock.now() + std::min(attempt, config_.job.join_timeout));
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
    post(CoordinatorEvent{MemberLost{0, "it looks for another coordinator", true}});
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
  } else if (const auto found = member_ends_.find(member); found != member_ends_.end()) {
    found->second->send(message);
  }
}

void Runner::drop_member(MemberId member) {
  if (member == 0 && link_is_local_) {
    hear(LinkDown{"the coordinator here let go of this node"});
    link_is_local_ = false;
    return;
  }
  const auto found = member_ends_.find(member);
  if (found == member_ends_.end()) return;
  found->second->close();
  member_ends_.erase(found);
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
