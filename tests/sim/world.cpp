#include "tests/sim/world.h"

#include <csignal>

namespace dlaunch::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How soon TCP notices that a cut has ended.
constexpr Duration retransmission = milliseconds(200);
// From a keeper's deadline, or its agent's end, until the last worker is dead.
constexpr Duration longest_death = milliseconds(80);
// Of the protocol mux (store/server/port_limits.h).
constexpr Duration http_time = std::chrono::seconds(30);

// --- World ---

void World::at(TimePoint when, std::function<void()> event) {
  events_.push_back({std::max(when, now_), next_number_++, std::move(event)});
  std::ranges::push_heap(events_, std::less());
}

std::size_t World::run(TimePoint end) {
  std::size_t count = 0;
  while (!events_.empty() && events_.front().when <= end) {
    std::ranges::pop_heap(events_, std::less());
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.when;
    event.act();
    ++count;
  }
  return count;
}

std::int64_t World::draw(std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
}
bool World::chance(double probability) {
  return static_cast<double>(random_() >> 11) * 0x1.0p-53 < probability;
}
Duration World::delay(Duration least, Duration most) { return Duration(draw(least.count(), most.count())); }

// --- Cluster ---

Node* Cluster::find(const std::string& host) {
  const auto found = nodes_.find(host);
  return found == nodes_.end() ? nullptr : found->second;
}
void Cluster::enter(Node& node) { nodes_["node" + std::to_string(node.index())] = &node; }

// --- Node ---

Node::Node(Cluster& cluster, int index, agent::JobSpec job, agent::NodeSpec spec,
           std::optional<std::size_t> serves)
    : cluster_(cluster), job_(std::move(job)), spec_(std::move(spec)), index_(index), serves_(serves) {
  cluster_.enter(*this);
}
Node::~Node() = default;

void Node::start() {
  if (runner_ && alive_ && !exited_) return;
  end_all();  // a new agent waits until the previous one has ended
  on_ = alive_ = true;
  exited_ = paused_ = false;
  spec_.agent = (++life_ << 32) + static_cast<std::uint64_t>(index_) + 1;
  runner_.reset();
  agent::Runner::Config plan{job_,
                             spec_,
                             "sim",
                             {},
                             serves_,
                             [this](std::uint32_t round, const std::set<std::string>&) {
                               has_leader_mark_ = true;
                               if (cluster_.on_world) cluster_.on_world(spec_.agent, round);
                             },
                             [this] { later(Duration(0), [this] { exit(); }); },
                             {},
                             {},
                             this};
  plan.node_times = [this](const agent::JobStatus&) { return agent::TimeSums{spec_.slots}; };
  plan.secret = cluster_.secret;
  plan.draw_nonce = [] { return std::string(agent::nonce_size, 'n'); };
  plan.unix_us = wall_clock_us();
  plan.had_predecessor = has_leader_mark_;
  runner_ = std::make_unique<agent::Runner>(agent::Runner::Dependencies{*this, *this, *this, *this, *this},
                                            std::move(plan));
  runner_->begin();
}

std::int64_t Node::wall_clock_us() const {
  constexpr std::chrono::microseconds first_moment{1'700'000'000'000'000};  // of the simulation, Unix time
  const Duration error = cluster_.clock_error ? cluster_.clock_error(index_) : Duration(0);
  const Duration passed = cluster_.world().now() - cluster_.world().began() + error;
  return (first_moment + std::chrono::duration_cast<std::chrono::microseconds>(passed)).count();
}

void Node::crash() { die(false); }

void Node::vanish() {
  on_ = false;
  die(true);
}

void Node::die(bool silently) {
  if (!alive_) return;
  alive_ = false;
  if (silently) {
    end_all();
  } else {
    cluster_.world().at(now() + death(), [this, life = life_] {
      if (life == life_) end_all();
    });
  }
  due_timers_.clear();
  held_.clear();
  timers_.clear();
  lease_until_ = TimePoint::max();
  ++keeper_;
  is_keeper_dead_ = false;
  if (silently) {
    conns_.clear();
  } else {
    cut_connections(CloseKind::reset);
  }
}

void Node::end_all() {
  for (const auto& [key, process] : processes_) cluster_.on_end(index_, key);
  processes_.clear();
  daemons_ = 0;
}

Duration Node::death() { return cluster_.world().delay(milliseconds(1), longest_death); }

void Node::pause() { paused_ = alive_; }

// A loop that continues handles first the due timers, then everything else.
void Node::resume() {
  if (!std::exchange(paused_, false)) return;
  for (auto* held : {&due_timers_, &held_}) {
    for (const auto& act : std::exchange(*held, {})) when_awake(act);
  }
}

// The agent's process has ended: the kernel sends what it had queued, then closes its connections.
void Node::exit() {
  if (const agent::Coordinator* coordinator = runner_->coordinator())
    has_leader_mark_ = coordinator->may_leave_workers(now());
  exited_ = true;
  timers_.clear();
  cut_connections(CloseKind::closed_by_peer);
}

void Node::cut_connections(CloseKind how) {
  for (const auto& [id, conn] : conns_) {
    Node* peer = cluster_.find(conn.peer_host);
    if (!peer || !conn.peer) continue;
    const TimePoint when = std::max(conn.last_delivery, now() + wire_delay());
    peer->dependencies(when - now(), [peer, to = conn.peer, how] { peer->deliver(to, {"", how}); });
  }
  conns_.clear();
}

void Node::signal(int signo) {
  if (answers()) when_awake([this, signo] { runner_->on_signal(signo); });
}

void Node::kill_keeper() {
  if (!answers()) return;
  end_all();
  ++keeper_;
  is_keeper_dead_ = true;
  later(milliseconds(1), [this, keeper = keeper_] {
    if (keeper != keeper_) return;
    is_keeper_dead_ = false;
    spawner_handler_->on_workers_lost("the keeper process");
  });
}

void Node::by_keeper(Duration after, std::function<void()> act) {
  dependencies(after, [this, keeper = keeper_, act = std::move(act)] {
    if (keeper == keeper_ && !is_keeper_dead_) act();
  });
}

void Node::dependencies(Duration after, std::function<void()> act) {
  cluster_.world().at(cluster_.world().now() + after, [this, life = life_, act = std::move(act)] {
    if (alive_ && life == life_) act();
  });
}

void Node::later(Duration after, std::function<void()> act) {
  dependencies(after, [this, act = std::move(act)]() mutable { when_awake(std::move(act)); });
}

void Node::when_awake(std::function<void()> act) {
  if (!alive_ || exited_) return;
  if (paused_) {
    held_.push_back(std::move(act));
  } else {
    act();
  }
}

Duration Node::wire_delay() { return cluster_.world().delay(microseconds(50), milliseconds(20)); }

TimePoint Node::now() const { return cluster_.world().now(); }

TimerId Node::arm(TimePoint at, TimerHandler& handler) {
  const TimerId id{next_id_++, 1};
  timers_[id] = &handler;
  const auto fire = [this, id] {
    const auto found = timers_.find(id);
    if (found == timers_.end()) return;
    TimerHandler* armed = found->second;
    timers_.erase(found);
    armed->on_timer(id);
  };
  dependencies(at - now(), [this, fire] {
    if (paused_) {
      due_timers_.emplace_back(fire);
    } else {
      fire();
    }
  });
  return id;
}
void Node::disarm(TimerId timer) { timers_.erase(timer); }

// The simulated protocol mux accepts agents; see identify.
Result<Network::Listening> Node::listen(const Address& address, ListenerHandler&) {
  return Listening{{1, 1}, address.port, {address}};
}
void Node::unlisten(ListenerId) {}

ConnId Node::open(ConnectionHandler* handler, const std::string& peer_host) {
  const ConnId id{next_id_++, 1};
  conns_[id] = {handler, peer_host, {}, now(), handler == nullptr};
  return id;
}

ConnId Node::connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) {
  const ConnId id = open(&handler, address.host);
  const auto no_answer = [this, id, deadline] {
    later(std::max(Duration(0), deadline - now()), [this, id] { peer_closed(id, CloseKind::timed_out); });
  };
  if (cluster_.world().chance(cluster_.swallowed)) {  // the network drops it
    no_answer();
    return id;
  }
  dependencies(wire_delay(), [this, id, host = address.host, no_answer] {
    if (!conns_.contains(id)) return;
    Node* peer = cluster_.find(host);
    if (peer && (!peer->on() || cluster_.is_cut(index_, peer->index()))) return no_answer();
    if (!peer || !peer->answers() || !peer->serves_) {
      return when_awake([this, id] { peer_closed(id, CloseKind::refused); });
    }
    // The kernels connect; the agents notice it later.
    const ConnId other = peer->open(nullptr, "node" + std::to_string(index_));
    peer->conns_.at(other).peer = id;
    conns_.at(id).peer = other;
    when_awake([this, id] { come_up(id); });
  });
  return id;
}

void Node::come_up(ConnId id) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  found->second.up = true;
  ConnectionHandler* handler = found->second.handler;
  send(id, as_byte_span(std::exchange(found->second.early, {})));
  handler->on_connected(id);
}

// The first byte of an accepted connection decides whether it is an agent's; if it is not, the rest of an
// HTTP request is awaited.
void Node::identify(ConnId id, const Piece& piece) {
  Conn& conn = conns_.at(id);
  if (conn.is_http) return;
  conn.is_http = piece.bytes.front() != agent::greeting.front();
  if (conn.is_http) return later(http_time, [this, id] { close(id); });
  ConnectionHandler& handler = runner_->on_agent_connection(id, {conn.peer_host, 1});
  conns_.at(id).handler = &handler;
  handler.on_received(id, as_byte_span(piece.bytes));
}

void Node::hand_over(ConnId conn, ConnectionHandler& handler) {
  if (const auto found = conns_.find(conn); found != conns_.end()) found->second.handler = &handler;
}

void Node::send(ConnId id, ByteSpan bytes) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  Conn& conn = found->second;
  if (!conn.up) {
    conn.early.append(as_text(bytes));
    return;
  }
  std::string rest(as_text(bytes));
  while (!rest.empty()) {  // in order, in pieces of any size
    const auto piece =
        static_cast<std::size_t>(cluster_.world().draw(1, static_cast<std::int64_t>(rest.size())));
    conn.last_delivery = std::max(conn.last_delivery, now() + wire_delay());
    Node* peer = cluster_.find(conn.peer_host);
    if (!peer) return;
    peer->dependencies(conn.last_delivery - now(),
                       [peer, to = conn.peer, text = rest.substr(0, piece)] { peer->deliver(to, {text}); });
    rest.erase(0, piece);
  }
}

bool Node::held_up(const Conn& conn) const {
  const Node* peer = cluster_.find(conn.peer_host);
  return peer && cluster_.is_cut(index_, peer->index());
}

void Node::deliver(ConnId id, Piece piece) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  Conn& conn = found->second;
  if (!held_up(conn) && conn.stuck.empty()) {
    when_awake([this, id, piece = std::move(piece)] { take(id, piece); });
    return;
  }
  conn.stuck.push_back(std::move(piece));
  if (conn.stuck.size() == 1) dependencies(retransmission, [this, id] { deliver_stuck(id); });
}

void Node::deliver_stuck(ConnId id) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  if (held_up(found->second)) return dependencies(retransmission, [this, id] { deliver_stuck(id); });
  const std::deque<Piece> stuck = std::exchange(found->second.stuck, {});
  for (const Piece& piece : stuck) when_awake([this, id, piece] { take(id, piece); });
}

void Node::take(ConnId id, const Piece& piece) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  if (piece.bytes.empty()) return peer_closed(id, piece.end);
  if (found->second.handler == nullptr) return identify(id, piece);
  found->second.handler->on_received(id, as_byte_span(piece.bytes));
}

std::size_t Node::unsent(ConnId) const { return 0; }
void Node::pause_reading(ConnId, bool) {}

void Node::close(ConnId id) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  const Conn conn = found->second;
  conns_.erase(found);
  Node* peer = cluster_.find(conn.peer_host);
  if (!peer || !conn.peer) return;
  const TimePoint when = std::max(conn.last_delivery, now() + wire_delay());
  peer->dependencies(when - now(), [peer, to = conn.peer] {
    peer->deliver(to, {"", CloseKind::closed_by_peer});
  });
}

void Node::peer_closed(ConnId id, CloseKind how) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  ConnectionHandler* handler = found->second.handler;
  conns_.erase(found);
  if (!handler) return;  // not accepted yet
  handler->on_closed(id, {how, {ErrorKind::network, "connection", "", "simulated", ""}});
}

void Node::spawn(agent::ProcKey key, const agent::Command& command) {
  if (is_keeper_dead_) return;
  const Script script = cluster_.script(index_, key.round, static_cast<int>(key.local_rank));
  const Duration takes = cluster_.world().delay(microseconds(200), milliseconds(5));
  if (script.cannot_start) {
    by_keeper(takes, [this, key] {
      when_awake([this, key] { spawner_handler_->on_spawn_failed(key, "No such file or directory"); });
    });
    return;
  }
  processes_[key] = {next_pid_++, script, {}, now() + takes};
  cluster_.on_spawn(index_, key, command);
  by_keeper(takes, [this, key, pid = processes_[key].pid] {
    when_awake([this, key, pid] { spawner_handler_->on_started(key, pid); });
  });
  if (script.exit_code != 0) by_keeper(takes + script.life - script.dies_slowly, [this, key] { fail(key); });
  by_keeper(takes + script.life, [this, key] {
    const auto found = processes_.find(key);
    if (found == processes_.end()) return;
    end_process(key, {agent::ExitStatus::How::exited, found->second.script.exit_code, false});
  });
}

void Node::fail(agent::ProcKey key) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  found->second.failed = now();
  if (cluster_.on_failure) cluster_.on_failure(index_, key);
}

void Node::end_process(agent::ProcKey key, agent::ExitStatus status) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  const Process process = found->second;
  processes_.erase(found);
  if (process.script.leaves_daemon) ++daemons_;
  cluster_.on_end(index_, key);
  agent::WorkerExit exit;
  exit.status = status;
  exit.tail = process.script.last_words;
  if (process.failed && process.script.dies_slowly > Duration(0)) {
    exit.exception = "RuntimeError: simulated";
    exit.since_exception = now() - *process.failed;
  }
  when_awake([this, key, pid = process.pid, exit] { spawner_handler_->on_exited(key, pid, exit); });
  report_rest();
}

void Node::end_daemons() {
  if (daemons_ == 0) return;
  daemons_ = 0;
  report_rest();
}

void Node::report_rest() {
  if (!processes_.empty()) return;
  when_awake([this, daemons = static_cast<int>(daemons_)] {
    if (daemons > 0) {
      spawner_handler_->on_leftovers(daemons, "77 (daemon)");
    } else {
      spawner_handler_->on_all_gone();
    }
  });
}

void Node::signal_all(int signo) {
  if (cluster_.on_signal) cluster_.on_signal(index_, signo);
  for (const auto& [key, process] : processes_) {
    if (process.script.ignores_term) continue;
    // A keeper answers in order: it reports the start before the end.
    const Duration dies = cluster_.world().delay(microseconds(100), milliseconds(50));
    by_keeper(std::max(dies, process.reported - now()), [this, key = key, signo] {
      if (signo == SIGUSR1) fail(key);  // not stopped by the agent
      end_process(key, {agent::ExitStatus::How::signaled, signo, false});
    });
  }
  if (daemons_ > 0) by_keeper(milliseconds(3), [this] { end_daemons(); });
  if (processes_.empty()) by_keeper(microseconds(100), [this] { report_rest(); });
}

void Node::kill_all() {
  // A keeper acts in order: later starts are not affected.
  std::vector<agent::ProcKey> meant;
  Duration takes = death();
  for (const auto& [key, process] : processes_) {
    meant.push_back(key);
    takes = std::max(takes, process.reported - now());
  }
  by_keeper(takes, [this, meant] {
    for (const agent::ProcKey key : meant) {
      const auto found = processes_.find(key);
      if (found == processes_.end()) continue;
      found->second.script.leaves_daemon = false;
      end_process(key, {agent::ExitStatus::How::signaled, SIGKILL, false});
    }
    daemons_ = 0;
    report_rest();
  });
}

agent::Activity Node::activity(std::uint32_t round, int) {
  return cluster_.records ? cluster_.records(index_, round).activity : agent::Activity{};
}

std::vector<agent::GroupProgress> Node::group_progress(std::uint32_t round,
                                                       std::span<const agent::WorkerHere>, int, TimePoint) {
  return cluster_.records ? cluster_.records(index_, round).group_progress.value()
                          : std::vector<agent::GroupProgress>{};
}

void Node::report(const agent::LogMessage& message) {
  const std::string time = std::to_string(to_seconds(now() - cluster_.world().began()));
  said_.push_back(time.substr(0, time.find('.') + 4) + " " + message.text);
}

// The keeper kills what it started if the agent does not renew the lease in time.
void Node::keep_alive(TimePoint until) {
  lease_until_ = until;
  if (until != TimePoint::max()) dependencies(std::max(Duration(0), until - now()), [this] { lease_over(); });
}

void Node::lease_over() {
  if (now() < lease_until_ || processes_.empty()) return;
  kill_all();
}

}  // namespace dlaunch::sim
