// The messages of one call of a collective, and the check that all ranks mean the same call.
//
// Why there is a check: transports move bytes blindly. In Gloo a message longer than the memory it is
// received into ends the receiving process, and a shorter one silently leaves old data behind. So a program
// in which one rank calls all_reduce with 1000 elements and another with 10 must be stopped before their data
// meet.
//
// How it is done without an extra round trip:
//
// Short messages (up to eager_limit) go through the transport's eager channel, each behind a header with the
// call's fingerprint, in two parts if they are longer than fragment_limit. A copy costs less than the two
// notices (rts and cts) that a message from memory to memory needs first.
//
// Long messages go from memory to memory, to a slot that is a hash (62 bits) of the call and the length:
// messages of different calls never meet, and then both ranks wait. So a rank that has waited for a while
// sends headers alone through the eager channel: it announces its first long messages of the call, and
// reports its call to the rank that it waits for (if it has sent that rank nothing). Then it polls its eager
// channels: a header of the same number and another call, from any rank, is the error to report. Later
// messages of a call are not announced, since they follow from the call that both ranks have agreed on.
//
// A header without a message may come when it is no longer needed, because its sender waited for another rank
// or in another call. The next receive from that channel, or the next poll, drops it. So a channel that is
// full of headers is full only until the next poll. (Headers behind messages that only the end of an
// operation takes stay longer: collective_backend.cpp counts how many there may be of both.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/base/short_array.h"
#include "runtime/collectives/collective_fingerprint.h"
#include "runtime/collectives/message_header.h"
#include "runtime/collectives/workspace.h"

namespace dlaunch::internal {

// Releases a message of an eager channel that is no longer needed.
struct ReleaseToChannel {
  EagerChannel* channel = nullptr;
  int peer = -1;
  void operator()(const std::byte* /*message*/) const { channel->release(peer); }
};

// A transport and what it returns in every call: asked once for all exchanges.
struct MessageGroup {
  explicit MessageGroup(Transport& connected)
      : transport(connected),
        eager_channel(connected.eager_channel()),
        rank(connected.rank()),
        size(connected.size()) {}

  Transport& transport;
  EagerChannel& eager_channel;
  const int rank;
  const int size;
};

class Exchange {
 public:
  static constexpr std::size_t fragment_limit =
      EagerChannel::max_message_size - sizeof(MessageHeader);  // bytes in one part
  static constexpr std::size_t eager_limit = 2 * fragment_limit;
  // So many messages of a call can be sent to a rank before any is received from any rank, whatever their
  // length: nearly half of a channel's places may hold messages whose release is not reported yet.
  static constexpr std::size_t max_unreceived_sends = EagerChannel::max_unreceived / 2 / 2;

  // `members`: the ranks of the group that exchange messages, this one among them; empty: all. rank(), size()
  // and the peers of send() and receive() count these; errors name ranks of the group.
  // `sequence`: call_number(). REQUIRES: all that is passed outlives the exchange and its messages.
  Exchange(const MessageGroup& group, Workspace& workspace, const CollectiveFingerprint& fingerprint,
           std::uint64_t sequence, Deadline deadline, std::span<const int> members = {});
  Exchange(Transport& transport, Workspace& workspace, const CollectiveFingerprint& fingerprint,
           std::uint64_t sequence, Deadline deadline, std::span<const int> members = {})
      : Exchange(MessageGroup(transport), workspace, fingerprint, sequence, deadline, members) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Workspace& workspace() { return workspace_; }

  // A message to a peer. If it is destroyed before wait() has returned, it is dropped, and the group fails.
  class Send {
   public:
    void wait();  // the memory may be used again

   private:
    friend class Exchange;
    Exchange* exchange_ = nullptr;
    std::unique_ptr<Transfer> long_;
    std::optional<std::size_t> announcement_;  // in exchange_->pending_announcements_
  };

  // A message that is expected. Receives from one rank are waited for in the order of their creation, one at
  // a time: destroy one before the wait for the next one from that rank.
  class Receive {
   public:
    // The message's bytes: in the memory given to receive() or, up to fragment_limit, in the eager channel
    // until this object is destroyed.
    std::span<const std::byte> wait();
    // Copies it into the memory given to receive() in any case.
    void wait_in_place();

   private:
    friend class Exchange;
    void take_eager();
    void take_second_part();
    void await_long();

    Exchange* exchange_ = nullptr;
    int peer_ = -1;
    bool is_first_ = false;  // of the call, from that rank
    std::span<std::byte> memory_;
    std::unique_ptr<const std::byte, ReleaseToChannel> held_;
    std::unique_ptr<Transfer> long_;
  };

  // A long message that comes before its receive waits in the connection, whose window closes. If two ranks
  // send each other messages, each creates its receive first.
  //
  // This rank's n-th receive from a peer gets the peer's n-th message to this rank. receive() returns at
  // once; send() too, unless the peer is several short messages behind. `bytes` must not change until the
  // Send's wait() has returned, and `memory`, whose length is the message's, must not be touched until the
  // Receive's has.
  Send send(int member, std::span<const std::byte> bytes);
  Receive receive(int member, std::span<std::byte> memory);

 private:
  // A long message that a call begins with.
  struct PendingAnnouncement {
    int peer;
    std::size_t length;  // 0: needs no announcement (any more)
  };
  enum PeerState : std::uint8_t { sent_to = 1, received_from = 2, got_long = 4, notified = 8 };
  static constexpr int no_peer = -1;

  template <class Wait>
  bool await(int peer, const Wait& wait);
  void poll_peers(int awaited);
  void announce();
  [[nodiscard]] int rank_of(int member) const;
  bool send_header(int peer, MessageHeader::Place place, std::size_t length);
  void check_fingerprint_of(int peer);
  void check_next_of(int peer, std::size_t expected_length, int& overtaken);
  const std::byte* peek(int peer);
  [[nodiscard]] bool is_old(int peer, const MessageHeader& header) const;

  std::byte* compose(int peer);
  void send_eager(int peer, std::span<const std::byte> message, MessageHeader::Place place);
  const std::byte* receive_eager(int peer);
  [[nodiscard]] std::uint64_t long_slot(std::size_t length) const;
  void check(int peer, const MessageHeader& header, std::size_t expected_length, bool is_first) const;
  void check_call(int peer, const MessageHeader& header) const;

  Transport& transport_;
  EagerChannel& eager_channel_;
  Workspace& workspace_;
  const CollectiveFingerprint fingerprint_;
  const std::uint64_t sequence_;
  const Deadline deadline_;
  const std::span<const int> members_;  // ranks of the group; empty: all
  const int rank_;                      // among the members
  const int size_;
  ShortArray<std::uint8_t, 64> peer_states_;  // by rank of the group: bits of PeerState
  std::vector<PendingAnnouncement> pending_announcements_;
  int half_sent_to_ = no_peer;  // the next in its channel is a second part
  Deadline next_poll_;          // the next time to poll the peers; Deadline(): not fixed yet
};

// Waits for the last message first: most of the others arrive before it, so this thread is woken once and not
// by each message, which would take the processor from the thread that brings the next.
void wait_for_all(std::span<Exchange::Send> messages);
// The same, in place. REQUIRES: no two of them from one rank.
void wait_for_all(std::span<Exchange::Receive> messages);

}  // namespace dlaunch::internal
