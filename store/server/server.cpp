#include "store/server/server.h"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

namespace dlaunch::store {
namespace {

// 1.13's DELETE_KEY is a prefix of 2.1's APPEND: after this silence it is taken for DELETE_KEY.
constexpr Duration silence_decides_after = std::chrono::milliseconds(50);

// So many times in StoreLimits::unread_time it is checked whether a connection reads.
constexpr int reader_checks = 10;

// Answers to requests wait while their reader is slow; notifications of watchers do not, so they need a
// bound.
constexpr std::size_t most_unread_notes = 64 << 20;

constexpr std::size_t expensive = 64 << 10;  // ending connections with less does not make room

constexpr std::size_t kept_keys = 1 << 14;  // what the reused request keeps of a larger one

constexpr std::string_view full = "the store is full";
constexpr std::string_view unread_and_full = "it does not read its answers, and the store is full";
constexpr std::string_view unread_too_long = "it does not read its answers";
constexpr std::string_view unauthenticated_too_long = "it has not sent a whole request";
constexpr std::string_view no_memory = "there is not enough memory for its answers";

constexpr std::string_view torchrun_comes = "torchrun cannot join a dlaunch job: start dlaunch on that node";

}  // namespace

// A store client's connection.
struct StoreServer::Connection final : ConnectionHandler, TimerHandler, Table::Client {
  Connection(StoreServer& owner, ConnId id, const Address& address)
      : server(owner), conn(id), peer(address), session(owner.options_.limits, owner.options_.old_clients) {}

  void on_received(ConnId, ByteSpan bytes) override { server.received(*this, bytes); }
  void on_drained(ConnId) override { server.received(*this, {}); }
  void on_closed(ConnId, const ConnectionEnd&) override {
    server.remove(*this);
    server.leaving_.clear();
  }
  void on_timer(TimerId) override {
    timer = {};
    session.silence();
    server.received(*this, {});
  }

  StoreServer& server;
  const ConnId conn;
  const Address peer;
  Session session;
  TimerId timer;            // runs while silence decides
  std::size_t counted = 0;  // its part of half_requests_
  bool held = false;        // its requests wait until it has read its answers
  bool ended = false;
  bool proven = false;               // it has sent a whole greeting or request
  TimePoint last_sent;               // when it last sent anything until then
  bool failed = false;               // memory was too short for its answer
  std::uint64_t queued = 0;          // bytes of answers, ever
  std::uint64_t taken = UINT64_MAX;  // of those, taken by the kernel at the last check; no check yet
  TimePoint taken_since;             // since when it has taken so many
};

StoreServer::StoreServer(Network& network, Timers& timers, Clock& clock, ServerOptions options)
    : network_(network),
      timers_(timers),
      clock_(clock),
      options_(std::move(options)),
      rejections_(options_.report),
      mux_(network, timers, clock, rejections_, this, options_.agents, options_.https, options_.http_rules,
           options_.key, options_.port, options_.secure),
      table_(std::make_unique<Table>(options_.limits)) {}

StoreServer::~StoreServer() { close(); }

Result<Network::Listening> StoreServer::listen(const Address& address) {
  auto listening = network_.listen(address, mux_);
  if (listening) listeners_.push_back(listening->id);
  return listening;
}

Result<Network::Listening> StoreServer::listen_on(int socket) {
  auto listening = network_.listen_on(socket, mux_);
  if (listening) listeners_.push_back(listening->id);
  return listening;
}

void StoreServer::new_round(std::set<std::string> blocked_hosts) {
  ++totals_.rounds;
  mux_.new_round(std::move(blocked_hosts));
  start_afresh();
}

void StoreServer::close() {
  for (const ListenerId listener : std::exchange(listeners_, {})) network_.unlisten(listener);
  mux_.close();
  start_afresh();
}

void StoreServer::start_afresh() {
  for (const auto& [conn, connection] : connections_) {
    timers_.disarm(connection->timer);
    network_.close(conn);
  }
  table_ = std::make_unique<Table>(options_.limits);  // it does not know the clients that leave now
  connections_.clear();
  connections_of_host_.clear();
  unauthenticated_ = 0;
  half_requests_ = 0;
  timers_.disarm(std::exchange(unread_timer_, {}));
}

StoreStats StoreServer::stats() const {
  StoreStats stats = totals_;
  stats.connections = connections_.size();
  stats.undecided = mux_.undecided();
  stats.keys = table_->keys();
  stats.unread_bytes = network_.unsent_memory();
  stats.bytes = held();
  stats.waiting = table_->waiting();
  return stats;
}

ConnectionHandler& StoreServer::on_store_connection(ConnId conn, const Address& peer) {
  ++totals_.connections_total;
  auto connection = std::make_unique<Connection>(*this, conn, peer);
  ++connections_of_host_[peer.host];
  ++unauthenticated_;
  return *connections_.emplace(conn, std::move(connection)).first->second;
}

std::size_t StoreServer::connections_of(const std::string& host) const {
  const auto found = connections_of_host_.find(host);
  return found == connections_of_host_.end() ? 0 : found->second;
}

void StoreServer::take_for_client(Connection& connection) {
  if (!std::exchange(connection.proven, true)) --unauthenticated_;
}

bool StoreServer::end_unauthenticated(TimePoint silent_since, const std::string* host) {
  if (unauthenticated_ == 0) return false;
  const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const auto& entry) {
    const Connection& connection = *entry.second;
    return !connection.proven && connection.last_sent < silent_since &&
           (host == nullptr || connection.peer.host == *host);
  });
  if (found == connections_.end()) return false;
  drop(*found->second, unauthenticated_too_long);
  leaving_.clear();
  return true;
}

// Each PyTorch client before 2.1 has a second connection, which stays silent; such clients do not greet.
std::size_t StoreServer::companions_of(const std::string& host) const {
  if (!connections_of_host_.contains(host)) return 0;
  const auto has_one = [&](const auto& entry) {
    const auto dialect = entry.second->session.dialect();
    return entry.second->peer.host == host && dialect && *dialect != Dialect::v2_2;
  };
  return static_cast<std::size_t>(std::count_if(connections_.begin(), connections_.end(), has_one));
}

// After more bytes, or another reason to continue: the peer has read its answers, or was silent long enough.
void StoreServer::received(Connection& connection, ByteSpan bytes) {
  half_requests_ -= std::exchange(connection.counted, 0);
  timers_.disarm(std::exchange(connection.timer, {}));
  if (!connection.proven) connection.last_sent = clock_.now();
  connection.session.feed(bytes);
  serve_all(connection);
  if (connection.session.dialect() == Dialect::v2_2) take_for_client(connection);
  if (!connection.ended) {
    connection.session.keep_rest();
    connection.counted = connection.session.buffered();
    half_requests_ += connection.counted;
  }
  if (any_failed_) end_failed();
  if (held() > options_.limits.total_bytes) make_room(connection);
  if (!unread_timer_ && network_.unsent(connection.conn) > 0)
    unread_timer_ = timers_.arm(clock_.now() + options_.limits.unread_time / reader_checks, *this);
  leaving_.clear();
}

std::uint64_t StoreServer::held() const {
  return table_->bytes() + half_requests_ + network_.unsent_memory();
}

// Ends connections until the memory limit holds: first those with the most expensive unread answers.
void StoreServer::make_room(Connection& connection) {
  network_.drop_remains();
  while (held() > options_.limits.total_bytes) {
    Connection* const worst = most_unread();
    if (worst == nullptr) return reject(connection, full);
    drop(*worst, unread_and_full);
  }
}

// Null: unread answers cost little.
StoreServer::Connection* StoreServer::most_unread() {
  Connection* worst = nullptr;
  std::size_t most = expensive;
  for (const auto& [conn, connection] : connections_) {
    const std::size_t cost = network_.unsent_memory(conn);
    if (cost <= most) continue;
    most = cost;
    worst = connection.get();
  }
  return worst;
}

// Ends the connections that have read none of their answers for too long.
void StoreServer::on_timer(TimerId) {
  unread_timer_ = {};
  const TimePoint now = clock_.now();
  std::vector<Connection*> stuck;
  bool any_unread = false;
  for (const auto& [conn, connection] : connections_) {
    const std::size_t unsent = network_.unsent(conn);
    if (unsent == 0) continue;
    any_unread = true;
    if (const std::uint64_t taken = connection->queued - unsent; taken != connection->taken) {
      connection->taken = taken;
      connection->taken_since = now;
    } else if (now - connection->taken_since >= options_.limits.unread_time) {
      stuck.push_back(connection.get());
    }
  }
  if (any_unread) unread_timer_ = timers_.arm(now + options_.limits.unread_time / reader_checks, *this);
  for (Connection* connection : stuck) drop(*connection, unread_too_long);
  leaving_.clear();
}

void StoreServer::end_failed() {
  any_failed_ = false;
  std::vector<Connection*> failed;
  for (const auto& [conn, connection] : connections_) {
    if (connection->failed) failed.push_back(connection.get());
  }
  for (Connection* connection : failed) drop(*connection, no_memory);
}

void StoreServer::serve_all(Connection& connection) {
  while (!connection.ended) {
    const bool slow = network_.unsent(connection.conn) > Network::high_water;
    if (slow != connection.held) network_.pause_reading(connection.conn, slow);
    connection.held = slow;
    if (slow) return;

    switch (connection.session.next(request_)) {
      case Session::Next::more:
        return;
      case Session::Next::silence_decides:
        return wait_for_silence(connection);
      case Session::Next::bad:
        return reject(connection, connection.session.why());
      case Session::Next::request:
        break;
    }
    if (is_for_torchrun()) return reject(connection, torchrun_comes);
    take_for_client(connection);
    ++totals_.requests[static_cast<std::size_t>(request_.kind)];
    deliver(&connection, table_->apply(connection, request_));
    if (request_.keys.capacity() > kept_keys) request_ = Request{};
  }
}

// A torchrun agent that looks for other torchrun agents would wait until its deadline, and so would this job.
// Once workers run, their keys are free, except the one with which such an agent creates its own rendezvous:
// in the workers' store it would be alone, and start a world of its own.
bool StoreServer::is_for_torchrun() const {
  if (options_.agents == nullptr) return false;
  if (totals_.rounds > 0)
    return request_.kind == RequestKind::compare_set && request_.key.starts_with("/torch.rendezvous.");
  const auto is_its = [](std::string_view key) {
    return key.find("torch.rendezvous.") != std::string_view::npos ||
           key.find("torchelastic/role_info") != std::string_view::npos;
  };
  return is_its(request_.key) || std::any_of(request_.keys.begin(), request_.keys.end(), is_its);
}

void StoreServer::deliver(Connection* requester, const Table::Outcome& outcome) {
  if (requester != nullptr) {
    encode(outcome.answer, [&](const auto& piece) { send(*requester, piece); });
  }
  for (Table::Client* client : outcome.woken) {
    const std::byte stop{answer_stop_waiting};
    send(*static_cast<Connection*>(client), ByteSpan(&stop, 1));
  }
  for (const Table::WatchNotification& notification : outcome.notifications) {
    Connection& watcher = *static_cast<Connection*>(notification.client);
    const auto send_text = [&](const auto& bytes) {
      const auto size = static_cast<std::uint64_t>(bytes.size());
      send(watcher, std::as_bytes(std::span(&size, 1)));
      send(watcher, bytes);
    };
    send(watcher, std::as_bytes(std::span(&notification.event, 1)));
    send_text(as_byte_span(notification.key));
    send_text(notification.old_value);
    send_text(notification.new_value);
  }
  // Only now, since a rejection uses the table again and invalidates this outcome.
  if (requester != nullptr && outcome.answer.kind == Answer::Kind::refused)
    return reject(*requester, outcome.answer.bytes.bytes);
  std::vector<Connection*> overrun;
  for (const Table::WatchNotification& notification : outcome.notifications) {
    auto* watcher = static_cast<Connection*>(notification.client);
    if (network_.unsent(watcher->conn) > most_unread_notes) overrun.push_back(watcher);
  }
  for (Connection* watcher : overrun) reject(*watcher, "it watches keys, but does not read");
}

// If memory is too short, the peer would miss a part of its answers: its connection ends after this event.
template <class Bytes>
void StoreServer::send(Connection& connection, const Bytes& bytes) {
  try {
    if constexpr (std::is_same_v<Bytes, SharedBytes>) {
      network_.send_shared(connection.conn, bytes);
    } else {
      network_.send(connection.conn, bytes);
    }
    connection.queued += bytes.size();
  } catch (const std::bad_alloc&) {
    connection.failed = any_failed_ = true;
  }
}

void StoreServer::wait_for_silence(Connection& connection) {
  connection.timer = timers_.arm(clock_.now() + silence_decides_after, connection);
}

void StoreServer::reject(Connection& connection, std::string_view why) {
  if (connection.ended) return;
  ++totals_.rejected;
  rejections_.rejected(connection.peer, why);
  network_.close(connection.conn);
  remove(connection);
}

// As reject, at once: drops unsent bytes.
void StoreServer::drop(Connection& connection, std::string_view why) {
  if (connection.ended) return;
  ++totals_.rejected;
  network_.abort(connection.conn);
  remove(connection);
  rejections_.rejected(connection.peer, why);
}

// Forgets the connection; the object is destroyed at the end of the event.
void StoreServer::remove(Connection& connection) {
  connection.ended = true;
  timers_.disarm(connection.timer);
  half_requests_ -= std::exchange(connection.counted, 0);
  leaving_.insert(connections_.extract(connection.conn));
  take_for_client(connection);
  if (const auto count = connections_of_host_.find(connection.peer.host); --count->second == 0)
    connections_of_host_.erase(count);
  deliver(nullptr, table_->forget(connection));
}

}  // namespace dlaunch::store
