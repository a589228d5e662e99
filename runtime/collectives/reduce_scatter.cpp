#include "runtime/collectives/reduce_scatter.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "runtime/collectives/ring_schedule.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

// This rank's values for the reduction: unchanged, or scaled in `memory`.
const std::byte* prepared(std::span<const std::byte> values, std::byte* memory, DType dtype,
                          const Reduction& reduction, int size) {
  if (!needs_preparing(dtype, reduction)) return values.data();
  if (!values.empty()) std::memcpy(memory, values.data(), values.size());
  prepare({memory, values.size()}, dtype, reduction, size);
  return memory;
}

constexpr std::size_t aligned(std::size_t size) { return (size + 63) / 64 * 64; }

}  // namespace

// Pairwise exchange: in step k each rank sends to the rank k to the right that rank's block, and gets its own
// from the rank k to the left. (R. Thakur, R. Rabenseifner, W. Gropp: "Optimization of Collective
// Communication Operations in MPICH", 2005, section 4.3.) The steps overlap, so it takes one message's
// latency in all: for short blocks. The blocks are added in the order of the ranks, not of their arrival.
void reduce_scatter_pairwise(Exchange& exchange, std::span<std::byte> output,
                             std::span<const std::span<const std::byte>> inputs, DType dtype,
                             const Reduction& reduction) {
  const int size = exchange.size();
  const int rank = exchange.rank();
  const std::size_t count = output.size() / size_of(dtype);
  const ReduceKernel combine = reduce_kernel(dtype, reduction.op);

  std::size_t stride = 0;
  for (const std::span<const std::byte> input : inputs) stride = std::max(stride, aligned(input.size()));
  std::byte* const scratch = exchange.workspace().scratch(stride * (inputs.size() + 1)).data();
  const auto own = [&](int block) {
    const auto number = static_cast<std::size_t>(block);
    return std::span(prepared(inputs[number], scratch + number * stride, dtype, reduction, size),
                     inputs[number].size());
  };

  std::vector<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  expected.reserve(inputs.size());
  sent.reserve(inputs.size());
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) expected.push_back(exchange.receive(peer, output));
  }
  for (int step = 1; step < size; ++step) {
    const int peer = (rank + step) % size;
    sent.push_back(exchange.send(peer, own(peer)));
  }
  // `output` may be this rank's input: the sum grows in other memory.
  std::byte* const sum = scratch + inputs.size() * stride;
  for (int peer = 0; peer < size; ++peer) {
    const std::byte* const block =
        peer == rank ? own(rank).data()
                     : expected[static_cast<std::size_t>(peer - (peer > rank))].wait().data();
    if (peer == 0) {
      if (!output.empty()) std::memcpy(sum, block, output.size());
    } else {
      combine(sum, sum, block, count);
    }
  }
  if (!output.empty()) std::memcpy(output.data(), sum, output.size());
  wait_for_all(sent);
}

// Ring: each block travels once round, from the rank after its owner to its owner, and every rank on the way
// adds its own values: the first half of the ring all-reduce (P. Patarasuk, X. Yuan, 2009). Blocks travel in
// segments; while one is added others are under way.
void reduce_scatter_by_ring(Exchange& exchange, std::span<std::byte> output,
                            std::span<const std::span<const std::byte>> inputs, DType dtype,
                            const Reduction& reduction) {
  constexpr std::size_t segment_bytes = std::size_t{512} * 1024;
  constexpr std::size_t receives_ahead = 3;
  const std::size_t element = size_of(dtype);
  const ReduceKernel combine = reduce_kernel(dtype, reduction.op);

  // Every block has the same number of segments, so that the k-th message to the right is the k-th from the
  // left.
  std::size_t longest = 0;
  for (const std::span<const std::byte> input : inputs) longest = std::max(longest, input.size());
  const std::size_t segments = std::max<std::size_t>(1, (longest + segment_bytes - 1) / segment_bytes);
  const auto piece = [&]<class Byte>(std::span<Byte> block, std::size_t segment) {
    const EvenPart part(block.size() / element, segments, segment);
    return block.subspan(part.begin * element, part.length * element);
  };
  // A block starts at the rank after its owner, so that it ends at its owner.
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  const RingSchedule ring(rank, inputs.size(), segments, (rank + inputs.size() - 1) % inputs.size());
  const std::size_t messages = ring.round();
  const auto own_values = [&](RingSchedule::Piece at) { return piece(inputs[at.block], at.segment); };
  const auto incoming = [&](std::size_t k) { return own_values(ring.incoming(k)); };

  // A slot receives a message, adds to it, and sends it on. Besides there is room for this rank's scaled
  // values; those of the first step stay while they are being sent.
  const std::size_t slots = segments + receives_ahead;
  const std::size_t stride = aligned((longest / element / segments + 1) * element);
  std::byte* const scratch = exchange.workspace().scratch((slots + segments + 1) * stride).data();
  const auto slot = [&](std::size_t k) { return scratch + (k % slots) * stride; };
  std::byte* const first_step = scratch + slots * stride;
  std::byte* const scaled = first_step + segments * stride;

  std::deque<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  sent.reserve(messages);
  std::size_t posted = 0;
  std::size_t confirmed = 0;  // sends
  const auto post_receives = [&](std::size_t done) {
    for (; posted < std::min(messages, done + receives_ahead); ++posted) {
      // The slot is free when its last message, posted - slots, has been sent on.
      if (posted >= slots) sent[confirmed++].wait();
      expected.push_back(exchange.receive(ring.left(), {slot(posted), incoming(posted).size()}));
    }
  };

  // Message k is this rank's own values in the first step, then the result of message k - segments.
  const auto send_until = [&](std::size_t end) {
    for (std::size_t k = sent.size(); k < std::min(messages, end); ++k) {
      if (k < segments) {
        const std::span<const std::byte> values = own_values(ring.outgoing(k));
        const std::byte* const data =
            prepared(values, first_step + k * stride, dtype, reduction, exchange.size());
        sent.push_back(exchange.send(ring.right(), {data, values.size()}));
      } else {
        sent.push_back(exchange.send(ring.right(), {slot(k - segments), incoming(k - segments).size()}));
      }
    }
  };

  // A rank that has sent more must first receive as many: the segments of short blocks go through the eager
  // channel, and ranks in a ring that all wait for room there would deadlock.
  const std::size_t ahead = std::min(segments, Exchange::max_unreceived_sends);
  confirmed = segments;  // sends from the slots begin behind these
  post_receives(0);
  send_until(ahead);
  for (std::size_t k = 0; k < messages; ++k) {
    const std::span<const std::byte> values = incoming(k);
    const std::byte* const own = prepared(values, scaled, dtype, reduction, exchange.size());
    const bool arrived = k + segments >= messages;  // at its owner
    std::byte* const sum = arrived ? piece(output, k % segments).data() : slot(k);
    combine(sum, expected.front().wait().data(), own, values.size() / element);
    expected.pop_front();
    send_until(k + 1 + ahead);
    post_receives(k + 1);
  }
  for (std::size_t k = 0; k < sent.size(); ++k) {
    if (k < segments || k >= confirmed) sent[k].wait();
  }
}

void reduce_scatter(Exchange& exchange, std::span<std::byte> output,
                    std::span<const std::span<const std::byte>> inputs, DType dtype,
                    const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return reduce_scatter_of_means(
        output, inputs, dtype, exchange.size(), static_cast<std::size_t>(exchange.rank()),
        [&](std::span<std::byte> sum, std::span<const std::span<const std::byte>> wide) {
          reduce_scatter(exchange, sum, wide, DType::int64, {});
        });
  }
  const bool all_short = std::ranges::all_of(
      inputs, [](std::span<const std::byte> input) { return input.size() <= Exchange::fragment_limit; });
  if (exchange.size() == 1) {
    if (!output.empty()) std::memmove(output.data(), inputs[0].data(), output.size());
    prepare(output, dtype, reduction, 1);
  } else if (all_short) {
    reduce_scatter_pairwise(exchange, output, inputs, dtype, reduction);
  } else {
    reduce_scatter_by_ring(exchange, output, inputs, dtype, reduction);
  }
}

}  // namespace dlaunch::internal
