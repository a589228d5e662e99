// What the ranks of a group that share memory, all or some, write into the rings between them to send
// messages, and what a rank does with what arrives there.
//
// A short message goes in one record ("eager"). For a message that is long, or has no credit or no room in
// the ring, the sender puts an "rts" (ready to send) with its address. When the receiver has a receive for
// it, it reads the sender's memory and answers "fin"; if it cannot read it, it answers "cts" (clear to send),
// and the content comes in pieces ("data"). Credits as in envelope.h. So a message whose Work has ended is in
// the ring or received; only records without content wait in the sender's memory for room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/tensor.h"
#include "dlaunch/transport.h"
#include "dlaunch/work.h"
#include "runtime/point_to_point/matching.h"
#include "runtime/point_to_point/pending_messages.h"
#include "runtime/shared_memory/direct_read.h"
#include "runtime/shared_memory/message_rings.h"

namespace dlaunch::internal {

// Used by one thread at a time.
class MemoryProtocol {
 public:
  // REQUIRES: both outlive this object.
  MemoryProtocol(Transport& transport, MessageRings& rings);
  MemoryProtocol(const MemoryProtocol&) = delete;
  MemoryProtocol& operator=(const MemoryProtocol&) = delete;

  // How a Work ends.
  struct Ending {
    WorkSource source;
    int from = -1;  // the rank that sent the message
    std::exception_ptr error = nullptr;

    // Without a lock: the program's callbacks run.
    void end() const;
  };
  // A receive whose content is in the sender's memory.
  struct DirectRead {
    PostedReceive receive;
    int from;
    std::uint64_t number;
    ProcessMemory process;
    std::uint64_t address;
  };
  // What the caller does when no lock is held: the program's callbacks run then, and large copies.
  struct Outcome {
    std::vector<Ending> endings;
    std::vector<DirectRead> reads;
  };

  struct Sending {
    Tensor tensor;
    int to;
    Tag tag;
    Deadline deadline;
    WorkSource source;
  };
  // These throw if no more messages are possible, or the rank has left; then the group ends.
  // Whether the message was sent and takes no answer. False: call send_rts().
  bool send_at_once(const Tensor& tensor, int to, Tag tag, Outcome& outcome);
  void send_rts(const Sending& message);
  void receive(const PostedReceive& receive, Outcome& outcome);
  // Whether the next record from that rank was a short message that this receive gets before all others: its
  // content is in the tensor now.
  bool receive_next(const Tensor& tensor, int from, Tag tag);

  // Handles what has arrived, and sends what can be sent now. Does not throw: an error ends the protocol.
  void progress(Outcome& outcome);
  // Copies. Several threads may do so at once. False: the memory cannot be read.
  [[nodiscard]] bool make(const DirectRead& read) const;
  void end_read(const DirectRead& read, bool is_read, Outcome& outcome);

  // No more messages are possible: all operations end with that error, unless they have ended already.
  void end(const std::exception_ptr& error, Outcome& outcome);
  [[nodiscard]] bool has_ended() const { return ended_ != nullptr; }

  // This rank leaves: no other one takes what it reads from this rank's memory any more.
  void withdraw();

  // Whether something waits for room in a ring.
  [[nodiscard]] bool has_waiting() const;
  // Whether an rts was sent, or answered, whose content has not come through.
  [[nodiscard]] bool is_transferring() const { return !outgoing_.is_empty() || is_receiving(); }
  [[nodiscard]] bool is_receiving() const { return !incoming_.is_empty() || reading_ > 0; }
  // Whether an operation is under way.
  [[nodiscard]] bool is_busy() const {
    return matching_.has_receives() || is_transferring() || has_waiting();
  }
  [[nodiscard]] Deadline next_deadline() const;

 private:
  enum class Kind : std::uint32_t { eager = 1, rts, fin, cts, data, credit };
  // The content of an rts: where the message is.
  struct LentMemory {
    ProcessMemory process;
    std::uint64_t address = 0;  // 0: other processes cannot read it
  };
  // A receive whose content comes in pieces.
  struct Incoming {
    PostedReceive receive;
    int from;
  };
  struct Queued {
    shared::RingRecord record;
    std::vector<std::byte> content;
  };
  // An accepted message of which pieces are still to be sent.
  struct Stream {
    std::uint64_t number;
    std::size_t sent = 0;  // bytes
  };
  struct Peer {
    std::deque<Queued> queue;
    std::deque<Stream> streams;
    int credits = credits_at_start;
    int taken = 0;  // contents received since the last credit
    bool left = false;
    bool to_notify = false;  // records were put, or removed
  };

  void receive_some(int from, std::size_t most, Outcome& outcome);
  void take_departures(Outcome& outcome);
  void handle(int from, const MessageRings::Arrived& arrived, Outcome& outcome);
  void handle_eager(int from, const MessageRings::Arrived& arrived, Outcome& outcome);
  void handle_rts(int from, const MessageRings::Arrived& arrived, Outcome& outcome);
  void handle_data(int from, const MessageRings::Arrived& arrived, Outcome& outcome);
  void deliver(const PostedReceive& receive, const Envelope& envelope, int from,
               std::span<const std::byte> content, Outcome& outcome);
  void send_cts(const PostedReceive& receive, int from, std::uint64_t number, Outcome& outcome);
  void put(int to, const shared::RingRecord& record, std::span<const std::byte> content = {});
  void send_waiting(int to, Outcome& outcome);
  bool send_piece(int to, Stream& stream, Outcome& outcome);
  void return_credit(int peer);
  void drop_waiting(int peer);
  void notify(int peer);
  void on_peer_left(int peer, Outcome& outcome);
  void expire(Outcome& outcome);
  void give_up(int peer, const std::string& reason, const WorkSource& source, Outcome& outcome);
  void throw_if_ended() const {
    if (ended_) std::rethrow_exception(ended_);
  }
  [[noreturn]] void end_for_departed(int peer);
  [[nodiscard]] bool all_peers_left() const;
  [[nodiscard]] Peer& peer_of(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  Transport& transport_;
  MessageRings& rings_;
  const int rank_;
  const std::uint64_t token_;  // see ProcessMemory
  std::vector<Peer> peers_;
  Matching matching_;
  PendingMessages<Sending> outgoing_;
  PendingMessages<Incoming> incoming_;
  std::uint64_t last_number_ = 0;
  std::uint32_t interrupts_;  // handled
  int reading_ = 0;           // receives that read a sender's memory now
  std::exception_ptr ended_;
};

}  // namespace dlaunch::internal
