// What the collectives need from a network: messages between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/export.h"

namespace dlaunch {

namespace internal {
class GroupMemory;
class HostMap;
class MessageRings;
}  // namespace internal

inline namespace v1 {

// One message in transit. Destroying it releases the memory at once: a transfer that has not completed is
// cancelled, and no thread touches its memory afterwards. (The connection to that peer is then unusable.)
class DLAUNCH_EXPORT Transfer {
 public:
  virtual ~Transfer();

  // Send: returns when the memory may be used again. Receive: returns when the message is in the memory.
  // Throws DistNetworkError, with peer and reason, if the deadline passes, the peer is lost or left, or the
  // transport was aborted. Called once at most.
  virtual void wait(Deadline deadline) = 0;

  // As wait(), but returns false when the deadline has passed, after which either may be called.
  virtual bool wait_until(Deadline deadline) = 0;
};

// A receive of the next message to a slot, from any rank. Destroying it has the effect as for a Transfer.
class DLAUNCH_EXPORT AnySourceReceive {
 public:
  enum class Event : std::uint8_t {
    message,  // it is in the memory; nothing more will come into this AnySourceReceive
    left,     // a rank has left the group in order, and all it sent has arrived; reported once for each rank
    nothing,  // the deadline has passed, or wake() was called
  };
  struct Arrival {
    Event event = Event::nothing;
    int peer = -1;  // the sender, or the rank that left
  };

  virtual ~AnySourceReceive();

  // May be called again after every event but a message. Throws as Transfer::wait does, but not because the
  // deadline has passed. Deadline::max(): the program waits for nothing, so the loss of a peer may remain
  // undetected until the next call.
  virtual Arrival wait(Deadline deadline) = 0;

  // Makes the call of wait(), running or to come, return. Any thread.
  virtual void wake() noexcept = 0;

  // Returns true if the AnySourceReceive takes no message any more; the caller then destroys it. Returns
  // false if a message has come or is on its way, and unless overridden.
  virtual bool retract() noexcept;
};

// Short messages to and from every other rank, sent eagerly: before the receiver has posted a receive. They
// wait at the receiver. Messages between two ranks keep their order. Used by one thread at a time.
class DLAUNCH_EXPORT EagerChannel {
 public:
  static constexpr std::size_t max_message_size = std::size_t{32} * 1024 + 64;  // bytes of one message
  static constexpr int max_unreceived = 16;  // messages of one rank that may wait at another

  virtual ~EagerChannel();

  // `max_message_size` bytes of memory, aligned for every dtype, for the next message to `peer`; the same
  // until send(peer). Waits while `max_unreceived` messages wait at the peer; null if the deadline passes
  // meanwhile. Otherwise throws as Transfer::wait does.
  virtual std::byte* compose(int peer, Deadline deadline) = 0;

  // Sends the first `length` bytes of what was composed for `peer`. Does not wait.
  virtual void send(int peer, std::size_t length) = 0;

  // The next message from `peer`, aligned for every dtype; its own bytes must tell its length. The same until
  // release(peer). Null if none has arrived when the deadline passes, otherwise throws as Transfer::wait
  // does. Deadline::min(): polls, and waits only for the end of a message that has begun to arrive.
  virtual const std::byte* receive(int peer, Deadline deadline) = 0;
  virtual void release(int peer) noexcept = 0;
};

// Ranks 0 .. size-1 that are all connected with each other. Made by one BackendModule::create, for one group.
//
// A message goes to a slot of a peer, a number that both sides know. Messages of one sender to one slot of
// one receiver arrive in the order in which they were posted; different slots are independent. A receive may
// be posted before or after its send. The memory of a receive is at least as long as the message: the caller
// ensures that (runtime/collectives/exchange.h does), a transport need not check. Zero bytes are allowed, and
// a rank may be its own peer. The first 2^63 slots belong to the caller, the others to the transport.
//
// The members may be called from several threads at once; each Transfer and AnySourceReceive is used by one
// at a time.
class DLAUNCH_EXPORT Transport {
 public:
  virtual ~Transport();

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Both return at once, or throw DistNetworkError if the peer is known to be
  // lost or the transport was aborted.
  virtual std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                              std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) = 0;

  // The same object in every call.
  virtual EagerChannel& eager_channel() = 0;

  // As post_recv, from any rank but the own. A slot is used either with this or with post_recv, and with one
  // AnySourceReceive at a time. The messages are not empty, and their first byte is not 0.
  virtual std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) = 0;

  // Throws DistNetworkError if a peer is known to be lost or the transport was aborted. Does not block.
  virtual void check() = 0;

  // The peers that are known to have left in order. Does not block. Unless overridden none.
  virtual std::vector<int> departed();

  // Every wait, now and later, throws DistNetworkError with this reason; the other ranks' waits throw too,
  // with the reason if it can still be delivered. The first call counts. Does not block.
  virtual void abort(const std::string& reason) noexcept = 0;

  // As abort, because of `peer`, which has left or is missing: the errors on all ranks then name that rank.
  // Unless overridden it calls abort().
  virtual void abort_for(int peer, const std::string& reason) noexcept;

  // Returns when all sent data have left this process, or `deadline` has passed; then informs the others that
  // this rank has left. After abort(): returns when the others have received the abort.
  virtual void shutdown(Deadline deadline) noexcept = 0;

  // This rank takes part in operation `number` from now on; the numbers grow. query_progress() on other ranks
  // reports it. Must cost next to nothing; does nothing unless overridden.
  virtual void enter(std::uint64_t number) noexcept;

  // The other ranks' progress, for a rank whose wait has timed out.
  struct ProgressReport {
    std::vector<int> stragglers;    // of the ranks that have not entered the operation, those that lag most
    std::vector<int> unresponsive;  // did not reply: the process is stopped, or the network is cut
  };
  // Queries all ranks about operation `number`; a rank replies whatever its program is doing. Takes a second
  // at most, and less if all reply. Throws as check() does. For the end of a group: only the first call sends
  // queries. Unless overridden no rank is queried.
  virtual ProgressReport query_progress(std::uint64_t number);

  // Calls `come` when another rank has a message for a slot that has no AnySourceReceive, at once if there is
  // one already: at most once, from any thread; it does not call the transport. An empty function unregisters
  // the earlier one: after that it is not called. So a group needs no thread while no such messages arrive.
  // Unless overridden it is called at once.
  virtual void on_unexpected_message(std::uint64_t slot, std::function<void()> come);

  // The memory that this rank shares with others of the group: with all, or with those of its host (hosts()).
  // Collectives use it. The same ranks share for each operation. Unless overridden null.
  virtual internal::GroupMemory* shared_memory();
  // Which ranks share memory with which others, if some do, but not all. Unless overridden null.
  virtual const internal::HostMap* hosts();
  // For messages to and from the ranks that share memory with this one. Unless overridden null.
  virtual internal::MessageRings* message_rings();
};

}  // namespace v1
}  // namespace dlaunch
