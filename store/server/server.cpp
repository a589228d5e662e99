#include "store/server/server.h"

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

namespace dlaunch {
namespace {

// 1.13's DELETE_KEY is 2.1's APPEND cut short: that long nothing may follow before it is taken for the first.
constexpr Duration silence_decides_after = std::chrono::milliseconds(50);

// In StoreLimits::unread_time so many times it is looked whether a connection reads.
constexpr int looks = 10;

// Answers to requests wait while their reader is slow; a watcher's notes do not, so there must be an end.
constexpr std::size_t most_unread_notes = 64 << 20;

constexpr std::size_t costs_much = 64 << 10;  // to end connections with less does not make room

constexpr std::size_t kept_keys = 1 << 14;  // what the request that is used again keeps of a larger one

constexpr std::string_view full = "the store is full";
constexpr std::string_view unread_and_full = "it does not read its answers, and the store is full";
constexpr std::string_view unread_too_long = "it does not read its answers";
constexpr std::string_view unproven_too_long = "it has not sent a whole request";
constexpr std::string_view no_memory = "there is not enough memory for its answers";

constexpr std::string_view torchrun_comes =
    "it is a torchrun, which cannot take part in a job of dlaunch's: start dlaunch on that node, too";

}  // namespace

// A store client's connection.
struct StoreServer::Visitor final : ConnectionHandler, TimerHandler, Table::Client {
  Visitor(StoreServer& owner, ConnId id, const Address& address)
      : server(owner), conn(id), peer(address), session(owner.options_.limits, owner.options_.old_clients) {}

  void on_received(ConnId, ByteSpan bytes) override { server.received(*this, bytes); }
  void on_drained(ConnId) override { server.received(*this, {}); }
  void on_closed(ConnId, const Error&) override {
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
  TimePoint heard;                   // the last time until then
  bool failed = false;               // there was no memory for its answer
  std::uint64_t queued = 0;          // bytes of answers, ever
  std::uint64_t taken = UINT64_MAX;  // of those, by the peer's system at the last look; none was yet
  TimePoint taken_since;             // it had taken so many already then
};

StoreServer::StoreServer(Network& network, Timers& timers, Clock& clock, ServerOptions options)
    : network_(network),
      timers_(timers),
      clock_(clock),
      options_(std::move(options)),
      strangers_(options_.report),
      door_(network, timers, clock, strangers_, this, options_.agents, options_.https, options_.http_rules,
            options_.key, options_.port, options_.secure),
      table_(std::make_unique<Table>(options_.limits)) {}

StoreServer::~StoreServer() { close(); }

Result<Network::Listening> StoreServer::listen(const Address& address) {
  auto listening = network_.listen(address, door_);
  if (listening) listeners_.push_back(listening->id);
  return listening;
}

Result<Network::Listening> StoreServer::listen_on(int socket) {
  auto listening = network_.listen_on(socket, door_);
  if (listening) listeners_.push_back(listening->id);
  return listening;
}

void StoreServer::new_round(std::set<std::string> shut_out) {
  ++totals_.rounds;
  door_.new_round(std::move(shut_out));
  start_afresh();
}

void StoreServer::close() {
  for (const ListenerId listener : std::exchange(listeners_, {})) network_.unlisten(listener);
  door_.close();
  start_afresh();
}

void StoreServer::start_afresh() {
  for (const auto& [conn, visitor] : visitors_) {
    timers_.disarm(visitor->timer);
    network_.close(conn);
  }
  table_ = std::make_unique<Table>(options_.limits);  // knows nothing of the clients that go now
  visitors_.clear();
  visitors_of_.clear();
  unproven_ = 0;
  half_requests_ = 0;
  timers_.disarm(std::exchange(unread_timer_, {}));
}

StoreStats StoreServer::stats() const {
  StoreStats stats = totals_;
  stats.connections = visitors_.size();
  stats.undecided = door_.undecided();
  stats.keys = table_->keys();
  stats.unread_bytes = network_.unsent_memory();
  stats.bytes = held();
  stats.waiting = table_->waiting();
  return stats;
}

ConnectionHandler& StoreServer::on_store_connection(ConnId conn, const Address& peer) {
  ++totals_.connections_total;
  auto visitor = std::make_unique<Visitor>(*this, conn, peer);
  ++visitors_of_[peer.host];
  ++unproven_;
  return *visitors_.emplace(conn, std::move(visitor)).first->second;
}

std::size_t StoreServer::connections_of(const std::string& host) const {
  const auto found = visitors_of_.find(host);
  return found == visitors_of_.end() ? 0 : found->second;
}

void StoreServer::take_for_client(Visitor& visitor) {
  if (!std::exchange(visitor.proven, true)) --unproven_;
}

bool StoreServer::end_unproven(TimePoint not_heard_since, const std::string* host) {
  if (unproven_ == 0) return false;
  const auto found = std::find_if(visitors_.begin(), visitors_.end(), [&](const auto& entry) {
    const Visitor& visitor = *entry.second;
    return !visitor.proven && visitor.heard < not_heard_since &&
           (host == nullptr || visitor.peer.host == *host);
  });
  if (found == visitors_.end()) return false;
  drop(*found->second, unproven_too_long);
  leaving_.clear();
  return true;
}

// Each client of PyTorch's before 2.1 has a second connection, which stays silent; they do not greet.
std::size_t StoreServer::companions_of(const std::string& host) const {
  if (!visitors_of_.contains(host)) return 0;
  const auto has_one = [&](const auto& entry) {
    const auto dialect = entry.second->session.dialect();
    return entry.second->peer.host == host && dialect && *dialect != Dialect::v2_2;
  };
  return static_cast<std::size_t>(std::count_if(visitors_.begin(), visitors_.end(), has_one));
}

// More bytes, or another reason to go on: the peer has read its answers, or was silent long enough.
void StoreServer::received(Visitor& visitor, ByteSpan bytes) {
  half_requests_ -= std::exchange(visitor.counted, 0);
  timers_.disarm(std::exchange(visitor.timer, {}));
  if (!visitor.proven) visitor.heard = clock_.now();
  visitor.session.feed(bytes);
  serve_all(visitor);
  if (visitor.session.dialect() == Dialect::v2_2) take_for_client(visitor);
  if (!visitor.ended) {
    visitor.session.keep_rest();
    visitor.counted = visitor.session.buffered();
    half_requests_ += visitor.counted;
  }
  if (any_failed_) end_failed();
  if (held() > options_.limits.total_bytes) make_room(visitor);
  if (!unread_timer_ && network_.unsent(visitor.conn) > 0)
    unread_timer_ = timers_.arm(clock_.now() + options_.limits.unread_time / looks, *this);
  leaving_.clear();
}

std::uint64_t StoreServer::held() const {
  return table_->bytes() + half_requests_ + network_.unsent_memory();
}

// Ends connections until the limit is kept: those first whose unread answers cost most.
void StoreServer::make_room(Visitor& visitor) {
  network_.drop_remains();
  while (held() > options_.limits.total_bytes) {
    Visitor* const worst = most_unread();
    if (worst == nullptr) return turn_away(visitor, full);
    drop(*worst, unread_and_full);
  }
}

// Null: unread answers cost little.
StoreServer::Visitor* StoreServer::most_unread() {
  Visitor* worst = nullptr;
  std::size_t most = costs_much;
  for (const auto& [conn, visitor] : visitors_) {
    const std::size_t cost = network_.unsent_memory(conn);
    if (cost <= most) continue;
    most = cost;
    worst = visitor.get();
  }
  return worst;
}

// Ends the connections that have read nothing of their answers for too long.
void StoreServer::on_timer(TimerId) {
  unread_timer_ = {};
  const TimePoint now = clock_.now();
  std::vector<Visitor*> stuck;
  bool any_unread = false;
  for (const auto& [conn, visitor] : visitors_) {
    const std::size_t unsent = network_.unsent(conn);
    if (unsent == 0) continue;
    any_unread = true;
    if (const std::uint64_t taken = visitor->queued - unsent; taken != visitor->taken) {
      visitor->taken = taken;
      visitor->taken_since = now;
    } else if (now - visitor->taken_since >= options_.limits.unread_time) {
      stuck.push_back(visitor.get());
    }
  }
  if (any_unread) unread_timer_ = timers_.arm(now + options_.limits.unread_time / looks, *this);
  for (Visitor* visitor : stuck) drop(*visitor, unread_too_long);
  leaving_.clear();
}

void StoreServer::end_failed() {
  any_failed_ = false;
  std::vector<Visitor*> failed;
  for (const auto& [conn, visitor] : visitors_) {
    if (visitor->failed) failed.push_back(visitor.get());
  }
  for (Visitor* visitor : failed) drop(*visitor, no_memory);
}

void StoreServer::serve_all(Visitor& visitor) {
  while (!visitor.ended) {
    const bool slow = network_.unsent(visitor.conn) > Network::high_water;
    if (slow != visitor.held) network_.pause_reading(visitor.conn, slow);
    visitor.held = slow;
    if (slow) return;

    switch (visitor.session.next(request_)) {
      case Session::Next::more:
        return;
      case Session::Next::silence_decides:
        return wait_for_silence(visitor);
      case Session::Next::bad:
        return turn_away(visitor, visitor.session.why());
      case Session::Next::request:
        break;
    }
    if (is_for_torchrun()) return turn_away(visitor, torchrun_comes);
    take_for_client(visitor);
    ++totals_.requests[static_cast<std::size_t>(request_.kind)];
    deliver(&visitor, table_->apply(visitor, request_));
    if (request_.keys.capacity() > kept_keys) request_ = Request{};
  }
}

// An agent of torchrun's that looks for others of its kind would wait until its deadline, and so would this
// job. Once workers run, their keys are their own affair, except the one by which such an agent makes a
// rendezvous of its own: in the workers' store it would find nobody, and start a world of its own.
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

void StoreServer::deliver(Visitor* asker, const Table::Outcome& outcome) {
  if (asker != nullptr) {
    encode(outcome.answer, [&](const auto& piece) { send(*asker, piece); });
  }
  for (Table::Client* client : outcome.woken) {
    const std::byte stop{answer_stop_waiting};
    send(*static_cast<Visitor*>(client), ByteSpan(&stop, 1));
  }
  for (const Table::WatchNote& note : outcome.notes) {
    Visitor& watcher = *static_cast<Visitor*>(note.client);
    const auto send_text = [&](const auto& bytes) {
      const auto size = static_cast<std::uint64_t>(bytes.size());
      send(watcher, std::as_bytes(std::span(&size, 1)));
      send(watcher, bytes);
    };
    send(watcher, std::as_bytes(std::span(&note.event, 1)));
    send_text(as_byte_span(note.key));
    send_text(note.old_value);
    send_text(note.new_value);
  }
  // Only now, since turning somebody away asks the table again and ends this outcome.
  if (asker != nullptr && outcome.answer.kind == Answer::Kind::refused)
    return turn_away(*asker, outcome.answer.bytes.bytes);
  std::vector<Visitor*> overrun;
  for (const Table::WatchNote& note : outcome.notes) {
    auto* watcher = static_cast<Visitor*>(note.client);
    if (network_.unsent(watcher->conn) > most_unread_notes) overrun.push_back(watcher);
  }
  for (Visitor* watcher : overrun) turn_away(*watcher, "it watches keys, but does not read");
}

// Without enough memory the peer would miss a part of its answers: its connection ends after this event.
template <class Bytes>
void StoreServer::send(Visitor& visitor, const Bytes& bytes) {
  try {
    if constexpr (std::is_same_v<Bytes, SharedBytes>) {
      network_.send_shared(visitor.conn, bytes);
    } else {
      network_.send(visitor.conn, bytes);
    }
    visitor.queued += bytes.size();
  } catch (const std::bad_alloc&) {
    visitor.failed = any_failed_ = true;
  }
}

void StoreServer::wait_for_silence(Visitor& visitor) {
  visitor.timer = timers_.arm(clock_.now() + silence_decides_after, visitor);
}

void StoreServer::turn_away(Visitor& visitor, std::string_view why) {
  if (visitor.ended) return;
  ++totals_.turned_away;
  strangers_.turned_away(visitor.peer, why);
  network_.close(visitor.conn);
  remove(visitor);
}

// As turn_away, at once: what was not sent is dropped.
void StoreServer::drop(Visitor& visitor, std::string_view why) {
  if (visitor.ended) return;
  ++totals_.turned_away;
  network_.abort(visitor.conn);
  remove(visitor);
  strangers_.turned_away(visitor.peer, why);
}

// Forgets the visitor; the object goes at the end of the event.
void StoreServer::remove(Visitor& visitor) {
  visitor.ended = true;
  timers_.disarm(visitor.timer);
  half_requests_ -= std::exchange(visitor.counted, 0);
  leaving_.insert(visitors_.extract(visitor.conn));
  take_for_client(visitor);
  if (const auto count = visitors_of_.find(visitor.peer.host); --count->second == 0)
    visitors_of_.erase(count);
  deliver(nullptr, table_->forget(visitor));
}

}  // namespace dlaunch
