// The outside world as four small interfaces: Clock, Timers, Network, Random. Production gets UvLoop
// (store/loop/uv_loop.h), tests and simulation a virtual world (tests/sim).
//
// Rules that every implementation keeps:
//   1. All calls return at once. Results come later, as calls of a handler, from the loop's top level: never
//      from inside a call of these interfaces. A handler may call anything here, also close what is
//      reporting.
//   2. Ids carry a generation. An id whose thing has ended is dead: calls with it do nothing, and no handler
//   is
//      called for it any more.
//   3. One thread. None of these may be used from another thread than the loop's.
//   4. Handlers are not owned; a handler must outlive what it was registered for.
//   5. If there is not enough memory for a connection's handler (it throws std::bad_alloc), the connection
//   ends
//      as if the peer had ended it, and nothing else does.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/base/address.h"
#include "store/base/bytes.h"
#include "store/base/result.h"
#include "store/base/shared_bytes.h"
#include "store/base/time.h"

namespace dlaunch {

template <class Tag>
struct Id {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // 0: no such thing, the value of a default-made id

  explicit operator bool() const { return generation != 0; }
  auto operator<=>(const Id&) const = default;  // NOLINT(modernize-use-nullptr): a mistake of clang-tidy 14
};

using TimerId = Id<struct TimerTag>;
using ListenerId = Id<struct ListenerTag>;
using ConnId = Id<struct ConnTag>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Stands still while one event is handled.
  virtual TimePoint now() const = 0;
};

class TimerHandler {
 public:
  virtual ~TimerHandler() = default;
  virtual void on_timer(TimerId timer) = 0;
};

class Timers {
 public:
  virtual ~Timers() = default;
  // One shot. A time that has passed fires on the loop's next turn.
  virtual TimerId arm(TimePoint at, TimerHandler& handler) = 0;
  virtual void disarm(TimerId timer) = 0;
};

// One side of a connection. Exactly one of on_closed (with the reason) or our own Network::close ends it.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void on_connected(ConnId) {}                        // only for connections made with connect()
  virtual void on_received(ConnId conn, ByteSpan bytes) = 0;  // `bytes` are valid during the call
  virtual void on_drained(ConnId) {}  // unsent() came back to 0 after having been over the high-water mark
  // Ended by the peer, or a connect that failed. `conn` is dead; what was queued is still sent where that is
  // possible.
  virtual void on_closed(ConnId conn, const Error& reason) = 0;
};

class ListenerHandler {
 public:
  virtual ~ListenerHandler() = default;
  // Returns who handles the new connection.
  virtual ConnectionHandler& on_accepted(ConnId conn, const Address& peer) = 0;
};

class Network {
 public:
  virtual ~Network() = default;

  struct Listening {
    ListenerId id;
    std::uint16_t port = 0;          // the real one, where 0 was asked for
    std::vector<Address> addresses;  // every local address that is bound
  };
  // Binds every local address that `address.host` names ("" or "*": all interfaces, both families) on one
  // port and listens. Fails with ErrorKind::not_found where the name is not known, with foreign where no
  // address is this machine's, with in_use, with timeout where names cannot be looked up, else with network.
  virtual Result<Listening> listen(const Address& address, ListenerHandler& handler) = 0;
  // The same with a socket that was bound by others, and may listen already. From now on it is the network's,
  // also where this fails. Only a network of real sockets has it; others refuse.
  virtual Result<Listening> listen_on(int /*socket*/, ListenerHandler& /*handler*/) {
    return Error{ErrorKind::refused, "cannot listen on", "a socket", "this network has none", ""};
  }
  virtual void unlisten(ListenerId listener) = 0;

  // Tries every address the name has, in turn, until one answers or `deadline` passes. One attempt: a refused
  // connection is reported at once; trying again is the caller's decision. on_connected or on_closed follows.
  virtual ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) = 0;

  // From now on `handler` is told what happens to `conn`, and the handler before it no more.
  virtual void hand_over(ConnId conn, ConnectionHandler& handler) = 0;

  // Queues a copy of the bytes; what is sent within one turn of the loop leaves in one write. What is sent
  // before on_connected is kept until then.
  virtual void send(ConnId conn, ByteSpan bytes) = 0;
  // Queues the bytes themselves where the network can, else a copy.
  virtual void send_shared(ConnId conn, const SharedBytes& bytes) { send(conn, bytes); }
  // Bytes queued and not yet taken by the operating system. A sender with more than `high_water` of them
  // waits for on_drained before it sends more; nothing else bounds the queue.
  virtual std::size_t unsent(ConnId conn) const = 0;
  static constexpr std::size_t high_water = 1 << 20;
  // The memory of queued bytes. Of one connection: what would be free without it, with its part of shared
  // bytes that nobody stores any more. Of all, also of connections that have ended and left bytes to be sent:
  // without shared bytes.
  virtual std::size_t unsent_memory(ConnId conn) const { return unsent(conn); }
  virtual std::size_t unsent_memory() const { return 0; }
  // Stops and resumes reading: the peer is slowed down by its own full buffers.
  virtual void pause_reading(ConnId conn, bool paused) = 0;
  // What is queued is still sent (for a bounded time), then the connection closes. The id is dead at once.
  virtual void close(ConnId conn) = 0;
  // Ends the connection at once: what is queued is dropped. The id is dead at once.
  virtual void abort(ConnId conn) { close(conn); }
  // Drops what connections that have ended have left to be sent.
  virtual void drop_remains() {}
};

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;  // for jitter and ids, nothing else
};

}  // namespace dlaunch
