// The messages of one call of a collective, and the check that all ranks mean the same call.
//
// Why there is a check: transports move bytes blindly. With Gloo a message longer than
// the memory it is received into ends the receiving process, and a shorter one leaves old
// data behind without a word. So a program in which one rank calls all_reduce with 1000
// elements and another with 10 must be stopped before its data meet.
//
// How it is done without an extra round trip:
//
// Short messages (up to eager_limit) travel behind a header that says what call they belong to and how long
// they are, in one piece through a block of fixed size. They go to a slot that only the call's number
// determines, so two ranks' k-th calls always meet there, however different they are.
//
// Long messages go straight from memory to memory, to a slot that contains their length: different lengths
// never meet. If a long message is the first one between two ranks in a call, a header alone goes ahead of it
// on the slot of the short ones. Later messages of the call need none, since what two ranks send each other
// follows from the call they have agreed on.
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

class Exchange {
 public:
  // Copying this much twice is cheaper than one more message between processes of one host.
  static constexpr std::size_t eager_limit = std::size_t{32} * 1024;
  static constexpr std::size_t header_size = 64;  // keeps what follows aligned
  static constexpr std::size_t block_size = header_size + eager_limit;

  // REQUIRES: `workspace` has blocks of block_size. All references outlive the exchange and its messages.
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
    Workspace::Block block_;
    std::unique_ptr<Transfer> short_;
    std::unique_ptr<Transfer> long_;
    Deadline deadline_;
  };

  // A message that is expected.
  class Receive {
   public:
    // Where the message lies: in the memory given to receive() or in a block of this object.
    std::span<const std::byte> wait();
    // Brings it into the memory given to receive() in any case.
    void wait_in_place();

   private:
    friend class Exchange;
    Exchange* exchange_ = nullptr;
    int peer_ = -1;
    std::span<std::byte> memory_;
    Workspace::Block block_;
    std::unique_ptr<Transfer> short_;
    std::unique_ptr<Transfer> long_;
  };

  // Both return at once. This rank's n-th receive from a peer gets the peer's n-th message to this rank.
  // `bytes` must not change until the Send has been waited for, `memory` not be touched until the Receive
  // has; its length is that of the message.
  Send send(int peer, std::span<const std::byte> bytes);
  Receive receive(int peer, std::span<std::byte> memory);

 private:
  struct Header;
  enum Met : std::uint8_t { sent_to = 1, heard_from = 2 };

  std::unique_ptr<Transfer> send_header(int peer, std::byte* block, std::span<const std::byte> message);
  void check(int peer, const std::byte* block, std::size_t expected_length) const;

  Transport& transport_;
  Workspace& workspace_;
  const Call call_;
  const std::uint64_t sequence_;
  const Deadline deadline_;
  const int rank_;
  const int size_;
  std::vector<std::uint8_t> met_;  // by rank: sent_to, heard_from
};

}  // namespace dlaunch
