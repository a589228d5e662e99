// A network without wires, and a clock that moves when told to: what a test needs to be every peer of a
// server.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "store/base/io.h"

namespace dlaunch::test {

class FakeNetwork final : public Network, public Timers, public Clock {
 public:
  // What the test does as a peer.

  ConnId arrive(const Address& peer = {"10.0.0.9", 40000}) {
    const ConnId conn{static_cast<std::uint32_t>(peers_.size()), 1};
    peers_[conn] = {};
    ConnectionHandler& handler = listener_->on_accepted(conn, peer);
    if (peers_[conn].handler == nullptr) peers_[conn].handler = &handler;
    return conn;
  }
  void give(ConnId conn, std::string_view bytes) {
    Peer& peer = peers_.at(conn);
    if (peer.closed || bytes.empty()) return;
    if (peer.paused) {
      peer.held.append(bytes);
    } else {
      peer.handler->on_received(conn, as_byte_span(bytes));
    }
  }
  void leave(ConnId conn) {
    Peer& peer = peers_.at(conn);
    if (peer.closed) return;
    peer.closed = true;
    peer.handler->on_closed(
        conn, {ErrorKind::network, "lost the connection to", "10.0.0.9:40000", "closed by the peer", ""});
  }
  // What the peer has got since the last call.
  std::string take(ConnId conn) {
    Peer& peer = peers_.at(conn);
    std::string bytes;
    bytes.swap(peer.out);
    return bytes;
  }
  // A peer that does not read: what is sent stays unsent until it does.
  void stop_reading(ConnId conn) { peers_.at(conn).reads = false; }
  void read_again(ConnId conn) {
    Peer& peer = peers_.at(conn);
    peer.reads = true;
    const bool was_over = peer.unsent > high_water;
    peer.unsent = 0;
    if (was_over && !peer.closed) peer.handler->on_drained(conn);
    if (peer.paused) return;
    std::string held;
    held.swap(peer.held);
    give(conn, held);
  }
  [[nodiscard]] bool closed(ConnId conn) const { return peers_.at(conn).closed; }
  [[nodiscard]] bool paused(ConnId conn) const { return peers_.at(conn).paused; }
  void pass(Duration time) {
    now_ += time;
    while (!timers_.empty() && timers_.begin()->second.at <= now_) {
      const auto [id, timer] = *timers_.begin();
      timers_.erase(timers_.begin());
      timer.handler->on_timer(id);
    }
  }
  [[nodiscard]] std::size_t timers() const { return timers_.size(); }

  // What the server sees.

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
  ConnId connect(const Address&, TimePoint, ConnectionHandler&) override { return {}; }
  void hand_over(ConnId conn, ConnectionHandler& handler) override { peers_.at(conn).handler = &handler; }
  void send(ConnId conn, ByteSpan bytes) override {
    Peer& peer = peers_.at(conn);
    if (peer.closed) return;
    peer.out.append(as_text(bytes));
    if (!peer.reads) peer.unsent += bytes.size();
  }
  std::size_t unsent(ConnId conn) const override { return peers_.at(conn).unsent; }
  void pause_reading(ConnId conn, bool paused) override { peers_.at(conn).paused = paused; }
  void close(ConnId conn) override { peers_.at(conn).closed = true; }

 private:
  struct Peer {
    ConnectionHandler* handler = nullptr;
    std::string out;
    std::string held;
    std::size_t unsent = 0;
    bool reads = true;
    bool paused = false;
    bool closed = false;
  };
  struct Timer {
    TimePoint at;
    TimerHandler* handler = nullptr;
  };

  ListenerHandler* listener_ = nullptr;
  std::map<ConnId, Peer> peers_;
  std::map<TimerId, Timer> timers_;
  std::uint32_t last_timer_ = 0;
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace dlaunch::test
