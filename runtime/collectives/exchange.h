// The messages of one call of a collective, and the check that all ranks mean the same call.
//
// Why there is a check: transports move bytes blindly. With Gloo a message longer than
// the memory it is received into ends the receiving process, and a shorter one leaves old
// data behind without a word. So a program in which one rank calls all_reduce with 1000
// elements and another with 10 must be stopped before its data meet.
//
// How it is done without an extra round trip: the first message between two ranks in a call begins with a
// header that says what is called, and the receiver looks at it before it uses what comes behind.
//
// Short messages (up to line_limit) go through the transport's line, each behind such a header, in two parts
// where they are longer than eager_limit. A copy of them is cheaper than the two notices that would have to
// precede a message which goes from memory to memory.
//
// Long messages do go from memory to memory, to a slot that contains their length: different lengths never
// meet. If a long message is the first one between two ranks in a call, the header goes ahead of it through
// the line. The receiver waits for the message all the same, since being woken twice costs as much as 100
// KiB: when that has come the header is there. Only if it does not come soon, which it never will if the
// ranks call different operations, the header is waited for. Later messages of the call need none, since what
// two ranks send each other follows from the call they have agreed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/collectives/call.h"
#include "runtime/collectives/workspace.h"

namespace dlaunch {

// What is done with a message of a line that is no longer needed.
struct ReleaseInLine {
  Line* line = nullptr;
  int peer = -1;
  void operator()(const std::byte* /*message*/) const { line->release(peer); }
};

class Exchange {
 public:
  static constexpr std::size_t header_size = 64;                           // keeps what follows aligned
  static constexpr std::size_t eager_limit = Line::longest - header_size;  // bytes in one part
  static constexpr std::size_t line_limit = 2 * eager_limit;
  // So many messages of a call can be sent to a rank before any is received from anybody, whatever their
  // length: of a line's places nearly half may be taken by messages whose release has not been told.
  static constexpr std::size_t sends_ahead = Line::ahead / 2 / 2;

  // REQUIRES: all references outlive the exchange and its messages.
  Exchange(Transport& transport, Workspace& workspace, const Call& call, std::uint64_t sequence,
           Deadline deadline);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] Workspace& workspace() { return workspace_; }

  // A message that was sent. Destroying it before wait() has returned drops it, and with it the group.
  class Send {
   public:
    void wait();  // the memory may be used again

   private:
    friend class Exchange;
    std::unique_ptr<Transfer> long_;
    Deadline deadline_;
  };

  // A message that is expected. Those from one rank are waited for in the order in which they were asked for,
  // and one at a time: the object goes before the next one from that rank is waited for.
  class Receive {
   public:
    // Where the message lies: in the memory given to receive() or, up to eager_limit, in the line, until this
    // object goes.
    std::span<const std::byte> wait();
    // Brings it into the memory given to receive() in any case.
    void wait_in_place();

   private:
    friend class Exchange;
    void meet();
    void take_second_part();

    Exchange* exchange_ = nullptr;
    int peer_ = -1;
    bool in_line_ = false;  // it, or its header
    std::span<std::byte> memory_;
    std::unique_ptr<const std::byte, ReleaseInLine> held_;
    std::unique_ptr<Transfer> long_;
  };

  // This rank's n-th receive from a peer gets the peer's n-th message to this rank. receive() returns at
  // once; send() too, unless the peer is several short messages behind. `bytes` must not change until the
  // Send has been waited for, `memory` not be touched until the Receive has; its length is that of the
  // message.
  Send send(int peer, std::span<const std::byte> bytes);
  Receive receive(int peer, std::span<std::byte> memory);

 private:
  struct Header;
  enum Met : std::uint8_t { sent_to = 1, heard_from = 2 };

  void send_in_line(int peer, std::span<const std::byte> message, bool whole);
  void check(int peer, const std::byte* header, std::size_t expected_length) const;

  Transport& transport_;
  Line& line_;
  Workspace& workspace_;
  const Call call_;
  const std::uint64_t sequence_;
  const Deadline deadline_;
  const int rank_;
  const int size_;
  std::vector<std::uint8_t> met_;  // by rank: sent_to, heard_from
};

}  // namespace dlaunch
