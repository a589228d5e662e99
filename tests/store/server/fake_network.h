// A network without wires, and a clock that moves on request: a test can play every peer of a server.
#pragma once

#include <algorithm>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/io.h"
#include "store/base/out_queue.h"

namespace dlaunch::test {

using namespace store;

class FakeNetwork final : public Network, public Timers, public Clock {
 public:
  // The actions of the test as a peer.

  ConnId arrive(const Address& peer = {"10.0.0.9", 40000}) {
    const ConnId conn{static_cast<std::uint32_t>(peers_.size()), 1};
    Peer& made = peers_.try_emplace(conn, memory_).first->second;
    ConnectionHandler& handler = listener_->on_accepted(conn, peer);
    if (made.handler == nullptr) made.handler = &handler;
    return conn;
  }
  // A connection that was requested, in order; each then comes about or fails.
  struct Dialled {
    Address address;
    TimePoint deadline;
    ConnId conn;
  };
  [[nodiscard]] const std::vector<Dialled>& dialled() const { return dialled_; }
  void answer(ConnId conn) {
    if (!closed(conn)) peers_.at(conn).handler->on_connected(conn);
  }
  void fail(ConnId conn, const ConnectionEnd& reason) {
    Peer& peer = peers_.at(conn);
    if (peer.closed) return;
    end(peer);
    peer.handler->on_closed(conn, reason);
  }
  void give(ConnId conn, std::string_view bytes) {
    Peer& peer = peers_.at(conn);
    if (peer.closed || bytes.empty()) return;
    if (peer.paused) {
      peer.held.append(bytes);
    } else {
      try {
        peer.handler->on_received(conn, as_byte_span(bytes));
      } catch (const std::bad_alloc&) {
        leave(conn);
      }
    }
  }
  void leave(ConnId conn) {
    fail(conn, {CloseKind::closed_by_peer,
                {ErrorKind::network, "lost the connection to", "10.0.0.9:40000", "closed by the peer", ""}});
  }
  // The bytes that the peer got since the last call.
  std::string take(ConnId conn) {
    Peer& peer = peers_.at(conn);
    std::string bytes;
    bytes.swap(peer.out);
    return bytes;
  }
  // A peer that does not read: bytes stay unsent until it does.
  void stop_reading(ConnId conn) { peers_.at(conn).reads = false; }
  void read_again(ConnId conn) {
    Peer& peer = peers_.at(conn);
    peer.reads = true;
    const bool was_over = peer.unread.size() > high_water;
    peer.unread.clear();
    if (was_over && !peer.closed) peer.handler->on_drained(conn);
    if (peer.paused) return;
    std::string held;
    held.swap(peer.held);
    give(conn, held);
  }
  // The peer's kernel takes so many unread bytes, and the peer none.
  void take_some(ConnId conn, std::size_t size) {
    Peer& peer = peers_.at(conn);
    std::string rest;
    peer.unread.each(size, SIZE_MAX, [&](ByteSpan piece) { rest.append(as_text(piece)); });
    peer.unread.clear();
    peer.unread.append(as_byte_span(rest));
  }
  // The next `times` sends run out of memory.
  void fail_sends(int times) { failing_sends_ = times; }
  [[nodiscard]] bool closed(ConnId conn) const { return peers_.at(conn).closed; }
  [[nodiscard]] bool paused(ConnId conn) const { return peers_.at(conn).paused; }
  void pass(Duration time) {
    now_ += time;
    while (true) {
      const auto first = std::min_element(timers_.begin(), timers_.end(), [](const auto& a, const auto& b) {
        return a.second.at < b.second.at;
      });
      if (first == timers_.end() || first->second.at > now_) return;
      const auto [id, timer] = *first;
      timers_.erase(first);
      timer.handler->on_timer(id);
    }
  }
  [[nodiscard]] std::size_t open() const {
    return static_cast<std::size_t>(
        std::count_if(peers_.begin(), peers_.end(), [](const auto& entry) { return !entry.second.closed; }));
  }
  [[nodiscard]] std::size_t timers() const { return timers_.size(); }

  // The server's view.

  TimePoint now() const override { return now_; }
  TimerId arm(TimePoint at, TimerHandler& handler) override {
    const TimerId id{0, ++last_timer_};
    timers_[id] = {at, &handler};
    return id;
  }
  void disarm(TimerId timer) override { timers_.erase(timer); }
  Result<Listening> listen(const Address& address, ListenerHandler& handler) override {
    listener_ = &handler;
    return Listening{{0, 1}, address.port, {address}};
  }
  void unlisten(ListenerId) override { listener_ = nullptr; }
  ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) override {
    const ConnId conn{static_cast<std::uint32_t>(peers_.size()), 1};
    peers_.try_emplace(conn, memory_).first->second.handler = &handler;
    dialled_.push_back({address, deadline, conn});
    return conn;
  }
  void hand_over(ConnId conn, ConnectionHandler& handler) override { peers_.at(conn).handler = &handler; }
  void send(ConnId conn, ByteSpan bytes) override { queue(conn, bytes); }
  void send_shared(ConnId conn, const SharedBytes& bytes) override { queue(conn, bytes); }
  std::size_t unsent(ConnId conn) const override { return peers_.at(conn).unread.size(); }
  std::size_t unsent_memory(ConnId conn) const override { return peers_.at(conn).unread.memory(); }
  std::size_t unsent_memory() const override { return memory_; }
  void pause_reading(ConnId conn, bool paused) override { peers_.at(conn).paused = paused; }
  void close(ConnId conn) override {
    if (const auto found = peers_.find(conn); found != peers_.end()) end(found->second);
  }

 private:
  struct Peer {
    explicit Peer(std::size_t& memory) : unread(memory) {}
    ConnectionHandler* handler = nullptr;
    std::string out;
    std::string held;
    OutQueue unread;
    bool reads = true;
    bool paused = false;
    bool closed = false;
  };
  struct Timer {
    TimePoint at;
    TimerHandler* handler = nullptr;
  };

  template <class Bytes>
  void queue(ConnId conn, const Bytes& bytes) {
    Peer& peer = peers_.at(conn);
    if (peer.closed) return;
    if (failing_sends_ > 0 && failing_sends_-- > 0) throw std::bad_alloc();
    peer.out.append(as_text(bytes));
    if (!peer.reads) peer.unread.append(bytes);
  }
  static void end(Peer& peer) {
    peer.closed = true;
    peer.unread.clear();
  }

  ListenerHandler* listener_ = nullptr;
  std::size_t memory_ = 0;
  int failing_sends_ = 0;
  std::map<ConnId, Peer> peers_;
  std::vector<Dialled> dialled_;
  std::map<TimerId, Timer> timers_;
  std::uint32_t last_timer_ = 0;
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace dlaunch::test
