// The collectives of one group whose ranks all share memory (runtime/shared_memory/layout.h).
//
// Short data: every rank writes its own where all can read them, and each rank reads what it needs: one
// exchange of cache lines, whatever the number of ranks. Long data go through staging areas in rounds that
// fit the processors' caches; the ranks fill the next round while others read this one. A reduction is cut
// into parts, one for each rank: every rank reads its part from all others, and the others read the result.
//
// The check that all ranks mean the same call costs nothing: the fingerprint lies in the line that carries
// the data, and a rank compares it before it uses them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/short_array.h"
#include "runtime/collectives/collective_fingerprint.h"
#include "runtime/collectives/workspace.h"
#include "runtime/shared_collectives/call_functions.h"
#include "runtime/shared_collectives/reduction_order.h"
#include "runtime/shared_memory/group_memory.h"
#include "runtime/shared_memory/shared_heap.h"

namespace dlaunch::internal {

// One call. Errors, deadlines and REQUIRES are those of the collectives over messages. The same bits on all
// ranks, and the same as over messages.
class SharedCall {
 public:
  using Bytes = std::span<std::byte>;
  using ConstBytes = std::span<const std::byte>;

  // `averaged`: of how many ranks an average is; 0: of those that share the memory.
  // REQUIRES: all references outlive the call; more than one rank; calls of one memory come one at a time.
  SharedCall(GroupMemory& memory, Workspace& workspace, ReductionOrders& orders,
             const CollectiveFingerprint& fingerprint, Deadline deadline, std::size_t averaged = 0);
  ~SharedCall();
  SharedCall(const SharedCall&) = delete;
  SharedCall& operator=(const SharedCall&) = delete;

  void all_reduce(Bytes values, DType dtype, const Reduction& reduction);
  void all_reduce_coalesced(std::span<const Bytes> tensors, DType dtype, const Reduction& reduction);
  void reduce(Bytes values, DType dtype, const Reduction& reduction, int root);
  void reduce_scatter(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                      const Reduction& reduction);
  void broadcast(Bytes values, int src);
  void all_gather(std::span<const Bytes> outputs, ConstBytes input);
  void gather(std::span<const Bytes> outputs, ConstBytes input, int root);
  void scatter(Bytes output, std::span<const ConstBytes> inputs, int root);
  void all_to_all(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs);
  void barrier();

 private:
  // Elements from the end of the region before on, which are combined in this order.
  struct Region {
    std::size_t end;
    const ReductionOrder* order;
  };
  static constexpr int all_ranks = -1;
  static constexpr std::size_t every_reader = ~std::size_t{0};
  static constexpr std::size_t no_reader = every_reader - 1;

  void begin() { memory_.begin(words_, deadline_); }
  void meet();

  // Data that the readers copy from the sender's memory.
  static constexpr std::size_t direct_size = std::size_t{64} * 1024;  // from so many bytes on
  bool meet_to_lend(std::span<const ConstBytes> lent);
  std::uint64_t lend(ConstBytes bytes);
  void move_directly(std::span<const Bytes> targets, std::size_t reader);

  // Data in a heap that all ranks share.
  bool meet_to_share(std::span<const ConstBytes> shared, std::size_t size, std::size_t alignment);
  void end_sharing();

  // Of an all_to_all: what a rank sends to another.
  struct Row {
    std::uint64_t length = 0;
    std::uint64_t offset = 0;   // in the cell or the eager area; 0: the block is not there
    std::uint64_t address = 0;  // in the sender's memory; 0: other ranks cannot read it

    [[nodiscard]] bool is_long() const { return length > 0 && offset == 0; }
  };
  struct Table;
  struct Sent {
    ShortArray<Row> rows;  // by receiver
    bool has_long;
  };
  Sent send_blocks(std::span<const ConstBytes> inputs);
  Row receive_block(std::size_t peer, Bytes target, bool& has_long);
  void check_length(std::size_t peer, std::uint64_t sent, std::size_t expected) const;
  void move_long(std::span<const Bytes> outputs, std::span<const ConstBytes> inputs,
                 std::span<const Row> sent, std::span<const Row> received);
  [[nodiscard]] std::size_t size() const { return memory_.size(); }
  [[nodiscard]] std::size_t self() const { return memory_.self(); }
  // The other ranks, each beginning with another one.
  template <class Body>
  void for_each_peer(const Body& body) const;

  void reduce_short(Bytes values, DType dtype, const Reduction& reduction, const ReductionOrder& order,
                    int root);
  struct LongReduction;
  void reduce_long(Bytes values, DType dtype, const Reduction& reduction, std::span<const Region> regions,
                   int root);
  void reduce_scatter_short(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                            const Reduction& reduction);
  void reduce_scatter_long(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                           const Reduction& reduction);
  std::vector<Region> all_reduce_regions(std::size_t bytes, std::size_t element);
  const ReductionOrder& reduce_scatter_order(std::span<const ConstBytes> inputs);

  // Data that pass through the staging areas, in rounds.
  struct Rounds {
    std::vector<std::uint64_t> to;    // by rank: rounds of this rank's staging that it reads
    std::vector<std::uint64_t> from;  // by rank: rounds of its staging that this rank reads
  };
  template <class Fill, class Drain>
  void relay(const Rounds& rounds, const Fill& fill, const Drain& drain);
  [[nodiscard]] Rounds no_rounds() const;

  GroupMemory& memory_;
  Workspace& workspace_;
  ReductionOrders& orders_;
  const CollectiveFingerprint& fingerprint_;
  const shared::Fingerprint words_;
  const Deadline deadline_;
  const std::size_t averaged_;            // ranks
  bool lends_ = false;                    // others may read this rank's memory
  std::vector<std::uint64_t> addresses_;  // by rank: of what it lends to this rank
  std::shared_ptr<SharedHeap> heap_;      // in which all ranks have their values
  std::vector<const std::byte*> places_;  // by rank: where this rank reads its values
};

// What a GroupMemory calls when a peer's fingerprint differs: throws DistNetworkError that shows both calls.
void throw_other_call(int peer, const shared::Fingerprint& theirs, const shared::Fingerprint& ours);

template <class Body>
void SharedCall::for_each_peer(const Body& body) const {
  for (std::size_t step = 1; step < size(); ++step) body((self() + step) % size());
}

template <class Fill, class Drain>
void SharedCall::relay(const Rounds& rounds, const Fill& fill, const Drain& drain) {
  const auto most = [](const std::vector<std::uint64_t>& all) { return *std::ranges::max_element(all); };
  const std::uint64_t filling = most(rounds.to);
  const std::uint64_t total = std::max(filling, most(rounds.from));
  const auto fill_round = [&](std::uint64_t round) {
    fill(round);
    memory_.set_filled(round);
  };
  if (filling > 0) fill_round(0);
  for (std::uint64_t round = 0; round < total; ++round) {
    if (round + 1 < filling) {
      // The half that was filled two rounds before.
      for_each_peer([&](std::size_t peer) {
        if (round > 0 && rounds.to[peer] > round - 1) memory_.await_drained(peer, round - 1);
      });
      fill_round(round + 1);
    }
    for_each_peer([&](std::size_t peer) {
      if (round >= rounds.from[peer]) return;
      memory_.await_filled(peer, round);
      drain(round, peer);
    });
    memory_.set_drained(round);
  }
  memory_.set_all_drained();
  memory_.end_staging();
}

}  // namespace dlaunch::internal
