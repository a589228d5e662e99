// The collectives that reduce.
#include <algorithm>
#include <bit>

#include "runtime/collectives/all_reduce.h"
#include "runtime/collectives/coalesced.h"
#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/ring_schedule.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"
#include "runtime/shared_collectives/rounds.h"
#include "runtime/shared_collectives/shared_call.h"

namespace dlaunch::internal {

namespace {

// Up to here every rank reduces everything; above, that would cost more than a second exchange.
constexpr std::size_t short_reduction = std::size_t{16} * 1024;
static_assert(short_reduction <= shared::eager_size);

// Bytes from one rank's part of a round to the next, for parts of the given length: whole lines, so that no
// two ranks write into one.
std::size_t part_stride(std::size_t ranks, std::size_t length) {
  constexpr std::size_t longest_part = std::size_t{64} * 1024;
  const std::size_t room = shared::half_staging_size / ranks / shared::line_pair * shared::line_pair;
  return std::min({longest_part, room, shared::round_up(length, shared::line_pair)});
}

// What a reduction on this rank reads of itself: its values, or its scaled values in `memory`.
const std::byte* prepared(std::span<const std::byte> values, std::byte* memory, DType dtype,
                          const Reduction& reduction, std::size_t ranks) {
  if (!needs_preparing(dtype, reduction)) return values.data();
  copy(memory, values);
  prepare({memory, values.size()}, dtype, reduction, static_cast<int>(ranks));
  return memory;
}

// The same for the others to read: always in `memory`.
void stage(std::byte* memory, std::span<const std::byte> values, DType dtype, const Reduction& reduction,
           std::size_t ranks) {
  copy(memory, values);
  prepare({memory, values.size()}, dtype, reduction, static_cast<int>(ranks));
}

}  // namespace

// --- all_reduce and reduce
// ------------------------------------------------------------------------------------

// The order in which runtime/collectives/all_reduce.cpp combines values of this length.
std::vector<SharedCall::Region> SharedCall::all_reduce_regions(std::size_t bytes, std::size_t element) {
  const std::size_t count = bytes / element;
  std::vector<Region> regions;
  switch (all_reduce_algorithm(static_cast<int>(size()), bytes)) {
    case AllReduceAlgorithm::doubling:
      regions.push_back({count, &orders_.doubling(size())});
      break;
    case AllReduceAlgorithm::halving:
      regions.push_back({count, &orders_.halving(size())});
      break;
    case AllReduceAlgorithm::ring: {
      const std::size_t segments = all_reduce_ring_segments(size(), count, element);
      for (std::size_t block = 0; block < size(); ++block) {
        const EvenPart last(count, size() * segments, (block + 1) * segments - 1);
        regions.push_back({last.begin + last.length, &orders_.chain(size(), block)});
      }
      break;
    }
  }
  return regions;
}

void SharedCall::all_reduce(Bytes values, DType dtype, const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return average(values, dtype, static_cast<int>(size()), true,
                   [&](Bytes parts) { all_reduce(parts, DType::int64, {}); });
  }
  if (values.size() <= short_reduction) {
    return reduce_short(values, dtype, reduction, orders_.doubling(size()), all_ranks);
  }
  reduce_long(values, dtype, reduction, all_reduce_regions(values.size(), size_of(dtype)), all_ranks);
}

void SharedCall::all_reduce_coalesced(std::span<const Bytes> tensors, DType dtype,
                                      const Reduction& reduction) {
  pack_and_reduce(workspace_, tensors, [&](Bytes values) { all_reduce(values, dtype, reduction); });
}

void SharedCall::reduce(Bytes values, DType dtype, const Reduction& reduction, int root) {
  if (is_integer_avg(dtype, reduction)) {
    return average(values, dtype, static_cast<int>(size()), self() == static_cast<std::size_t>(root),
                   [&](Bytes parts) { reduce(parts, DType::int64, {}, root); });
  }
  if (values.size() <= Exchange::fragment_limit && values.size() <= shared::eager_size) {
    return reduce_short(values, dtype, reduction, orders_.binomial(size(), static_cast<std::size_t>(root)),
                        root);
  }
  // As runtime/collectives/reduce_to_root.cpp: a block begins at the rank behind its own.
  const std::size_t count = values.size() / size_of(dtype);
  std::vector<Region> regions;
  for (std::size_t block = 0; block < size(); ++block) {
    regions.push_back({count * (block + 1) / size(), &orders_.chain(size(), block + 1)});
  }
  reduce_long(values, dtype, reduction, regions, root);
}

// Those that need the result read all ranks' values.
void SharedCall::reduce_short(Bytes values, DType dtype, const Reduction& reduction,
                              const ReductionOrder& order, int root) {
  begin();
  std::byte* const own = memory_.compose(values.size());
  stage(own, values, dtype, reduction, averaged_);
  memory_.publish();
  if (root != all_ranks && self() != static_cast<std::size_t>(root)) return;
  const auto sources = std::span(workspace_.pointers(size()));
  sources[self()] = own;
  for_each_peer([&](std::size_t peer) { sources[peer] = memory_.receive(peer, values.size()); });
  order.run(reduce_kernel(dtype, reduction.op), size_of(dtype), sources, values.data(),
            values.size() / size_of(dtype));
}

// In each round the ranks work on neighbouring parts of the values, one part a rank. A half of a rank's
// staging area holds its values for each part of another rank, and in the place of its own part its result.
//
// A result is written when all others have filled the same half again, hence have read the result before. A
// half is filled when all others have finished their results of two rounds before, hence have read it.
//
// If the values of all ranks are in a heap that they share, the others read them there. The result of an
// all_reduce is there, too: a rank writes to its own part, which only it reads from the others.
struct SharedCall::LongReduction {
  SharedCall& call;
  const Bytes values;
  const DType dtype;
  const Reduction& reduction;
  const std::span<const Region> regions;
  const bool takes_all;      // this rank needs the result of all parts
  const bool reads_values;   // of the others, where they are
  const bool reads_results;  // of the others, where their values are

  const std::size_t ranks = call.size();
  const std::size_t self = call.self();
  const std::size_t element = size_of(dtype);
  const std::size_t count = values.size() / element;
  const std::size_t stride = part_stride(ranks, values.size() / ranks + element);
  const std::size_t in_round = stride / element * ranks;  // elements
  const std::uint64_t rounds = (count + in_round - 1) / in_round;
  const ReduceKernel combine = reduce_kernel(dtype, reduction.op);

  [[nodiscard]] Bytes part_of(std::uint64_t round, std::size_t rank) const {
    const std::size_t begin = round * in_round;
    const EvenPart part(std::min(in_round, count - begin), ranks, rank);
    return values.subspan((begin + part.begin) * element, part.length * element);
  }
  [[nodiscard]] std::size_t offset_of(Bytes part) const {
    return static_cast<std::size_t>(part.data() - values.data());
  }

  void fill(std::uint64_t round) const {
    if (!reads_values) {
      std::byte* const half = call.memory_.own_staging(round, stride * ranks);
      call.for_each_peer([&](std::size_t peer) {
        stage(half + peer * stride, part_of(round, peer), dtype, reduction, call.averaged_);
      });
    } else if (needs_preparing(dtype, reduction)) {
      const Bytes all = values.subspan(round * in_round * element);
      prepare(all.first(std::min(all.size(), in_round * element)), dtype, reduction,
              static_cast<int>(call.averaged_));
    }
    call.memory_.set_filled(round);
  }

  // By regions of one order.
  void combine_part(std::uint64_t round) const {
    const Bytes part = part_of(round, self);
    std::byte* const result = reads_values && takes_all
                                  ? part.data()
                                  : call.memory_.own_staging(round, stride * ranks) + self * stride;
    const std::byte* const own =
        reads_values ? part.data() : prepared(part, result, dtype, reduction, call.averaged_);
    const auto sources = std::span(call.workspace_.pointers(ranks));
    const std::size_t first = offset_of(part) / element;
    const std::size_t end = first + part.size() / element;
    auto region = std::ranges::upper_bound(regions, first, {}, &Region::end);
    for (std::size_t at = first; at < end; ++region) {
      const std::size_t until = std::min(end, region->end);
      const std::size_t skipped = (at - first) * element;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        sources[rank] = (rank == self ? own : values_of(rank, round, part)) + skipped;
      }
      region->order->run(combine, element, sources, result + skipped, until - at);
      at = until;
    }
    call.memory_.set_drained(round);
    if (takes_all && result != part.data()) copy(part.data(), {result, part.size()});
  }
  // Of another rank for this rank's part.
  [[nodiscard]] const std::byte* values_of(std::size_t rank, std::uint64_t round, Bytes part) const {
    return reads_values ? call.places_[rank] + offset_of(part)
                        : call.memory_.staging(rank, round) + self * stride;
  }

  void take_result(std::uint64_t round, std::size_t peer) const {
    const Bytes target = part_of(round, peer);
    if (!takes_all || target.empty()) return;
    const std::byte* const result = reads_results ? call.places_[peer] + offset_of(target)
                                                  : call.memory_.staging(peer, round) + peer * stride;
    copy(target.data(), {result, target.size()});
  }
};

void SharedCall::reduce_long(Bytes values, DType dtype, const Reduction& reduction,
                             std::span<const Region> regions, int root) {
  const bool for_all = root == all_ranks;
  // The values of a rank that takes no result stay as they are.
  const bool may_share = for_all || !needs_preparing(dtype, reduction);
  const std::span<const ConstBytes> shared = {};
  const ConstBytes own = values;
  const bool reads_values =
      meet_to_share(may_share ? std::span(&own, 1) : shared, own.size(), size_of(dtype));
  const LongReduction work{.call = *this,
                           .values = values,
                           .dtype = dtype,
                           .reduction = reduction,
                           .regions = regions,
                           .takes_all = for_all || self() == static_cast<std::size_t>(root),
                           .reads_values = reads_values,
                           .reads_results = reads_values && for_all};
  work.fill(0);
  for (std::uint64_t round = 0; round < work.rounds; ++round) {
    if (round + 1 < work.rounds) work.fill(round + 1);
    for_each_peer([&](std::size_t peer) { memory_.await_filled(peer, round); });
    work.combine_part(round);
    for_each_peer([&](std::size_t peer) {
      memory_.await_drained(peer, round);
      work.take_result(round, peer);
    });
  }
  memory_.set_all_drained();
  if (reads_values) end_sharing();
  memory_.end_staging();
}

// --- reduce_scatter
// -------------------------------------------------------------------------------------------

void SharedCall::reduce_scatter(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return reduce_scatter_of_means(
        output, inputs, dtype, static_cast<int>(size()), self(),
        [&](Bytes sum, std::span<const ConstBytes> wide) { reduce_scatter(sum, wide, DType::int64, {}); });
  }
  std::size_t together = 0;
  for (const ConstBytes input : inputs) together += shared::round_up(input.size(), 64);
  if (together <= shared::eager_size) return reduce_scatter_short(output, inputs, dtype, reduction);
  reduce_scatter_long(output, inputs, dtype, reduction);
}

// The order in which runtime/collectives/reduce_scatter.cpp combines: that of the ranks, or a ring that ends
// at the owner.
const ReductionOrder& SharedCall::reduce_scatter_order(std::span<const ConstBytes> inputs) {
  const bool all_short =
      std::ranges::all_of(inputs, [](ConstBytes input) { return input.size() <= Exchange::fragment_limit; });
  return orders_.chain(size(), all_short ? 0 : self() + 1);
}

void SharedCall::reduce_scatter_short(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                      const Reduction& reduction) {
  std::size_t together = 0;
  for (const ConstBytes input : inputs) together += shared::round_up(input.size(), 64);
  begin();
  std::byte* const place = memory_.compose(together);
  std::size_t own_at = 0;  // this rank's block in every rank's row
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    if (rank == self()) own_at = at;
    stage(place + at, inputs[rank], dtype, reduction, averaged_);
    at += shared::round_up(inputs[rank].size(), 64);
  }
  memory_.publish();
  const auto sources = std::span(workspace_.pointers(size()));
  sources[self()] = place + own_at;
  for_each_peer([&](std::size_t peer) { sources[peer] = memory_.receive(peer, together) + own_at; });
  reduce_scatter_order(inputs).run(reduce_kernel(dtype, reduction.op), size_of(dtype), sources, output.data(),
                                   output.size() / size_of(dtype));
}

void SharedCall::reduce_scatter_long(Bytes output, std::span<const ConstBytes> inputs, DType dtype,
                                     const Reduction& reduction) {
  const std::size_t element = size_of(dtype);
  const ReductionOrder& order = reduce_scatter_order(inputs);
  const ReduceKernel combine = reduce_kernel(dtype, reduction.op);
  const auto sources = std::span(workspace_.pointers(size()));
  // The inputs stay as they are.
  const std::span<const ConstBytes> nothing = {};
  if (meet_to_share(needs_preparing(dtype, reduction) ? nothing : inputs, output.size(), element)) {
    std::ranges::copy(places_, sources.begin());
    sources[self()] = inputs[self()].data();
    order.run(combine, element, sources, output.data(), output.size() / element);
    memory_.set_all_drained();
    return end_sharing();
  }
  const std::size_t longest = std::ranges::max_element(inputs, {}, &ConstBytes::size)->size();
  const std::size_t stride = part_stride(size(), longest);
  Rounds rounds = no_rounds();
  for_each_peer([&](std::size_t peer) {
    rounds.to[peer] = rounds_of(inputs[peer].size(), stride);
    rounds.from[peer] = rounds_of(output.size(), stride);
  });
  std::size_t arrived = 0;  // ranks whose values of the round are here
  relay(
      rounds,
      [&](std::uint64_t round) {
        // In the place of its own part: its values, if they are scaled.
        std::byte* const half = memory_.own_staging(round, stride * size());
        for_each_peer([&](std::size_t peer) {
          stage(half + peer * stride, part(inputs[peer], round, stride), dtype, reduction, averaged_);
        });
      },
      [&](std::uint64_t round, std::size_t peer) {
        sources[peer] = memory_.staging(peer, round) + self() * stride;
        if (++arrived % (size() - 1) != 0) return;
        const Bytes target = part(output, round, stride);
        std::byte* const scaled = memory_.own_staging(round, stride * size()) + self() * stride;
        sources[self()] = prepared(part(inputs[self()], round, stride), scaled, dtype, reduction, averaged_);
        order.run(combine, element, sources, target.data(), target.size() / element);
      });
}

}  // namespace dlaunch::internal
