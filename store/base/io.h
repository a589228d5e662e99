// The outside world as four small interfaces: Clock, Timers, Network, Random. Production uses UvLoop
// (store/loop/uv_loop.h); tests and simulation use a virtual world (tests/sim).
//
// Rules that every implementation keeps:
//   1. All calls return at once. Results come later, as calls of a handler from the loop's top level, never
//      from inside a call of these interfaces. A handler may call anything here, and may close the reporter.
//   2. Ids carry a generation. After its object has ended an id is dead: calls with it do nothing, and no
//      handler is called for it any more.
//   3. One thread: only the loop's thread may use these.
//   4. Handlers are not owned; a handler must outlive what it was registered for.
//   5. If a connection's handler runs out of memory (it throws std::bad_alloc), the connection ends as if the
//      peer had ended it, and nothing else does.
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

namespace dlaunch::store {

template <class Tag>
struct Id {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  // 0: none, the value of a default-constructed id

  explicit operator bool() const { return generation != 0; }
  auto operator<=>(const Id&) const = default;  // NOLINT(modernize-use-nullptr): a mistake of clang-tidy 14
};

using TimerId = Id<struct TimerTag>;
using ListenerId = Id<struct ListenerTag>;
using ConnId = Id<struct ConnTag>;

class Clock {
 public:
  virtual ~Clock() = default;
  // Constant while one event is handled.
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
  // One shot. If the time has passed, it fires on the loop's next turn.
  virtual TimerId arm(TimePoint at, TimerHandler& handler) = 0;
  virtual void disarm(TimerId timer) = 0;
};

// How a connection ended, or why there is none. Callers decide by this; the texts of an Error are for people.
enum class CloseKind {
  closed_by_peer,  // in order: its process ended, or let go of the connection
  reset,           // by the peer's kernel
  refused,         // connect: the host answers, but nothing listens on that port
  timed_out,       // no answer in time: the peer may not know of the end
  unreachable,     // no way to the peer: an unknown name, no route; the peer may not know of the end
  rejected,        // by this side, since the peer has another key or what came is not TLS
  failed,          // by this side, which has no memory or descriptor for it
};
struct ConnectionEnd {
  CloseKind kind = CloseKind::failed;
  Error reason;
};

// One side of a connection. Exactly one of on_closed or our own Network::close ends it.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  virtual void on_connected(ConnId) {}                        // only for connections made with connect()
  virtual void on_received(ConnId conn, ByteSpan bytes) = 0;  // `bytes` are valid during the call
  virtual void on_drained(ConnId) {}  // unsent() came back to 0 after having been over the high-water mark
  // Ended by the peer, or a connect that failed. `conn` is dead; queued bytes are still sent if possible.
  virtual void on_closed(ConnId conn, const ConnectionEnd& end) = 0;
};

class ListenerHandler {
 public:
  virtual ~ListenerHandler() = default;
  // Returns the handler of the new connection.
  virtual ConnectionHandler& on_accepted(ConnId conn, const Address& peer) = 0;
};

class Network {
 public:
  virtual ~Network() = default;

  struct Listening {
    ListenerId id;
    std::uint16_t port = 0;          // the real one, if 0 was requested
    std::vector<Address> addresses;  // every local address that is bound
  };
  // Binds every local address that `address.host` names ("" or "*": all interfaces, both families) on one
  // port and listens. Kinds of failure: not_found (unknown name), foreign (no address is this machine's),
  // in_use, timeout (names cannot be looked up), network (all others).
  virtual Result<Listening> listen(const Address& address, ListenerHandler& handler) = 0;
  // The same with a socket that the caller has bound, which may listen already. The network then owns it,
  // even if this fails. Only a network of real sockets supports it; others refuse.
  virtual Result<Listening> listen_on(int /*socket*/, ListenerHandler& /*handler*/) {
    return Error{ErrorKind::refused, "cannot listen on", "a socket", "this network has none", ""};
  }
  virtual void unlisten(ListenerId listener) = 0;

  // Tries every address of the name, in turn, until one answers or `deadline` passes. One attempt: a refused
  // connection is reported at once; a retry is the caller's decision. on_connected or on_closed follows.
  virtual ConnId connect(const Address& address, TimePoint deadline, ConnectionHandler& handler) = 0;

  // From now on `handler` gets the events of `conn`, and the previous handler none.
  virtual void hand_over(ConnId conn, ConnectionHandler& handler) = 0;

  // Queues a copy of the bytes. All bytes of one turn of the loop leave in one write. Bytes sent before
  // on_connected are kept until then.
  virtual void send(ConnId conn, ByteSpan bytes) = 0;
  // Queues the bytes without a copy if the network can, else a copy.
  virtual void send_shared(ConnId conn, const SharedBytes& bytes) { send(conn, bytes); }
  // Bytes queued and not yet taken by the operating system. A sender with more than `high_water` of them
  // waits for on_drained before it sends more; nothing else bounds the queue.
  virtual std::size_t unsent(ConnId conn) const = 0;
  static constexpr std::size_t high_water = 1 << 20;
  // The memory of queued bytes. For one connection: what its end would free, with its part of shared bytes
  // that no table stores any more. For all, with those that have ended and still send: without shared bytes.
  virtual std::size_t unsent_memory(ConnId conn) const { return unsent(conn); }
  virtual std::size_t unsent_memory() const { return 0; }
  // Stops and resumes reading: the peer slows down when its own buffers are full.
  virtual void pause_reading(ConnId conn, bool paused) = 0;
  // Queued bytes are still sent (for a bounded time), then the connection closes. The id is dead at once.
  virtual void close(ConnId conn) = 0;
  // Ends the connection at once and drops queued bytes. The id is dead at once.
  virtual void abort(ConnId conn) { close(conn); }
  // Drops the unsent bytes of connections that have ended.
  virtual void drop_remains() {}
};

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;  // for jitter and ids, nothing else
};

}  // namespace dlaunch::store
