#include "tests/sim/world.h"

#include <csignal>

namespace dlaunch::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// --- World ---

void World::at(TimePoint when, std::function<void()> event) {
  events_.push({std::max(when, now_), next_number_++, std::move(event)});
}

std::size_t World::run(TimePoint end) {
  std::size_t count = 0;
  while (!events_.empty() && events_.top().when <= end) {
    Event event = events_.top();
    events_.pop();
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
  return found == nodes_.end() || !found->second->answers() ? nullptr : found->second;
}
void Cluster::enter(Node& node) { nodes_["node" + std::to_string(node.rank())] = &node; }

// --- Node ---

Node::Node(Cluster& cluster, agent::JobSpec job, agent::NodeSpec spec)
    : cluster_(cluster), job_(std::move(job)), spec_(std::move(spec)) {
  cluster_.enter(*this);
}
Node::~Node() = default;

void Node::start() {
  if (!alive_ || runner_) return;
  runner_ = std::make_unique<agent::Runner>(
      agent::Runner::Outside{*this, *this, *this, *this, *this},
      agent::Runner::Plan{job_, spec_, "sim", {}, {}, [this] { later(Duration(0), [this] { exit(); }); }});
  runner_->begin(spec_.node_rank == 0);
}

void Node::crash() {
  if (!alive_) return;
  alive_ = false;
  for (const auto& [key, process] : processes_) cluster_.on_end(rank(), key);
  processes_.clear();
  daemons_ = 0;
  cut_connections("connection reset by peer");
}

// The agent's process has ended: the kernel closes what it had open, after what it had sent.
void Node::exit() {
  exited_ = true;
  cut_connections("connection closed by peer");
}

void Node::cut_connections(const std::string& why) {
  for (const auto& [id, conn] : conns_) {
    Node* peer = cluster_.find(conn.peer_host);
    if (!peer || !conn.peer) continue;
    const TimePoint when = std::max(conn.last_delivery, now() + wire_delay());
    peer->later(when - now(), [peer, to = conn.peer, why] { peer->peer_closed(to, why); });
  }
  conns_.clear();
}

void Node::signal(int signo) {
  if (alive_ && runner_) runner_->on_signal(signo);
}

void Node::kill_keeper() {
  if (!alive_ || !runner_) return;
  for (const auto& [key, process] : processes_) cluster_.on_end(rank(), key);
  processes_.clear();
  daemons_ = 0;
  later(milliseconds(1), [this] { spawner_handler_->on_spawner_lost("the keeper was killed"); });
}

void Node::later(Duration after, std::function<void()> act) {
  cluster_.world().at(cluster_.world().now() + after, [this, act = std::move(act)] {
    if (alive_) act();
  });
}

Duration Node::wire_delay() { return cluster_.world().delay(microseconds(50), milliseconds(20)); }

TimePoint Node::now() const { return cluster_.world().now(); }

TimerId Node::arm(TimePoint at, TimerHandler& handler) {
  const TimerId id{next_id_++, 1};
  timers_[id] = &handler;
  cluster_.world().at(at, [this, id] {
    const auto found = timers_.find(id);
    if (!alive_ || found == timers_.end()) return;
    TimerHandler* armed = found->second;
    timers_.erase(found);
    armed->on_timer(id);
  });
  return id;
}
void Node::disarm(TimerId timer) { timers_.erase(timer); }

// The simulated front door lets agents through; see accept_from.
Result<Network::Listening> Node::listen(const Address& address, ListenerHandler&) {
  return Listening{{1, 1}, address.port, {address}};
}
void Node::unlisten(ListenerId) {}

ConnId Node::open(ConnectionHandler* handler, const std::string& peer_host) {
  const ConnId id{next_id_++, 1};
  conns_[id] = {handler, peer_host, {}, now()};
  return id;
}

ConnId Node::connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) {
  const ConnId id = open(&handler, address.host);
  if (cluster_.world().chance(0.02)) {  // the network swallows it
    later(deadline - now(), [this, id] { peer_closed(id, "connection timed out"); });
    return id;
  }
  later(wire_delay(), [this, id, host = address.host] {
    if (!conns_.contains(id)) return;
    Node* peer = cluster_.find(host);
    if (!peer || !peer->runner_->coordinator()) {
      peer_closed(id, "connection refused");
      return;
    }
    peer->accept_from(*this, id);
    Conn& conn = conns_.at(id);
    conn.handler->on_connected(id);
  });
  return id;
}

void Node::accept_from(Node& caller, ConnId caller_conn) {
  const ConnId id = open(nullptr, "node" + std::to_string(caller.rank()));
  Conn& conn = conns_.at(id);
  conn.peer = caller_conn;
  conn.handler = &runner_->on_agent_connection(id, {"node" + std::to_string(caller.rank()), 1});
  caller.conns_.at(caller_conn).peer = id;
}

void Node::hand_over(ConnId conn, ConnectionHandler& handler) {
  if (const auto found = conns_.find(conn); found != conns_.end()) found->second.handler = &handler;
}

void Node::send(ConnId id, ByteSpan bytes) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  Conn& conn = found->second;
  std::string rest(as_text(bytes));
  while (!rest.empty()) {  // in order, in pieces of any size
    const auto piece =
        static_cast<std::size_t>(cluster_.world().draw(1, static_cast<std::int64_t>(rest.size())));
    conn.last_delivery = std::max(conn.last_delivery, now() + wire_delay());
    Node* peer = cluster_.find(conn.peer_host);
    if (!peer) return;
    peer->later(conn.last_delivery - now(),
                [peer, to = conn.peer, text = rest.substr(0, piece)] { peer->deliver(to, text); });
    rest.erase(0, piece);
  }
}

void Node::deliver(ConnId conn, std::string bytes) {
  const auto found = conns_.find(conn);
  if (found != conns_.end()) found->second.handler->on_received(conn, as_byte_span(bytes));
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
  peer->later(when - now(), [peer, to = conn.peer] { peer->peer_closed(to, "connection closed by peer"); });
}

void Node::peer_closed(ConnId id, std::string why) {
  const auto found = conns_.find(id);
  if (found == conns_.end()) return;
  ConnectionHandler* handler = found->second.handler;
  conns_.erase(found);
  handler->on_closed(id, Error{ErrorKind::network, "connection", "", std::move(why), ""});
}

void Node::spawn(agent::ProcKey key, const agent::Command& command) {
  const Script script = cluster_.script(rank(), key.round, static_cast<int>(key.local_rank));
  const Duration takes = cluster_.world().delay(microseconds(200), milliseconds(5));
  if (script.cannot_start) {
    later(takes, [this, key] { spawner_handler_->on_spawn_failed(key, "No such file or directory"); });
    return;
  }
  processes_[key] = {next_pid_++, script, {}};
  cluster_.on_spawn(rank(), key, command);
  later(takes, [this, key, pid = processes_[key].pid] {
    // A keeper answers in order: started comes before exited.
    spawner_handler_->on_started(key, pid);
  });
  if (script.exit_code != 0) later(takes + script.life - script.dies_slowly, [this, key] { fail(key); });
  later(takes + script.life, [this, key] {
    const auto found = processes_.find(key);
    if (found == processes_.end()) return;
    end_process(key, {agent::ExitStatus::How::exited, found->second.script.exit_code, false});
  });
}

void Node::fail(agent::ProcKey key) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  found->second.failed = now();
  if (cluster_.on_failure) cluster_.on_failure(rank(), key);
}

void Node::end_process(agent::ProcKey key, agent::ExitStatus status) {
  const auto found = processes_.find(key);
  if (found == processes_.end()) return;
  const Process process = found->second;
  processes_.erase(found);
  if (process.script.leaves_daemon) ++daemons_;
  cluster_.on_end(rank(), key);
  agent::Ending ending;
  ending.status = status;
  ending.tail = process.script.last_words;
  if (process.failed && process.script.dies_slowly > Duration(0)) {
    ending.exception = "RuntimeError: simulated";
    ending.since_exception = now() - *process.failed;
  }
  spawner_handler_->on_exited(key, process.pid, ending);
  report_rest();
}

void Node::end_daemons() {
  if (daemons_ == 0) return;
  daemons_ = 0;
  report_rest();
}

void Node::report_rest() {
  if (!processes_.empty()) return;
  if (daemons_ > 0) {
    spawner_handler_->on_leftovers(static_cast<int>(daemons_), "77 (daemon)");
  } else {
    spawner_handler_->on_all_gone();
  }
}

void Node::signal_all(int signo) {
  for (const auto& [key, process] : processes_) {
    if (process.script.ignores_term) continue;
    later(cluster_.world().delay(microseconds(100), milliseconds(50)), [this, key, signo] {
      if (signo == SIGUSR1) fail(key);  // nobody asked it to stop
      end_process(key, {agent::ExitStatus::How::signaled, signo, false});
    });
  }
  if (daemons_ > 0) later(milliseconds(3), [this] { end_daemons(); });
  if (processes_.empty()) later(microseconds(100), [this] { report_rest(); });
}

void Node::kill_all() {
  // A keeper acts in order: what is started after this is not meant.
  std::vector<agent::ProcKey> meant;
  for (const auto& [key, process] : processes_) meant.push_back(key);
  later(milliseconds(1), [this, meant] {
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

}  // namespace dlaunch::sim
