#include "runtime/collectives/all_reduce.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/collectives/ring_schedule.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

// Recursive doubling: in round k each rank exchanges everything that it has with the rank whose number
// differs in bit k, so after log2(size) rounds every rank has combined all. If the size is not a power of
// two, the first ranks are merged in pairs before, and the idle half of each pair gets the result after. (R.
// Thakur, R. Rabenseifner, W. Gropp: "Optimization of Collective Communication Operations in MPICH", 2005,
// section 4.5.)
//
// Few rounds, but all bytes in each: for short vectors. Both partners combine the same two blocks in the same
// order (lower ranks first), hence get the same bits.
//
// No rank sends two messages to one peer: so the messages of several operations that have begun, and finish
// in the same order, keep that order between any two ranks.
ShortAllReduce::ShortAllReduce(Exchange& exchange, std::span<std::byte> values, DType dtype,
                               const Reduction& reduction, std::size_t area)
    : exchange_(exchange),
      values_(values),
      dtype_(dtype),
      reduction_(reduction),
      power_(static_cast<int>(std::bit_floor(static_cast<unsigned>(exchange.size())))),
      merged_(exchange.size() - power_),
      place_(exchange.rank() < 2 * merged_ ? exchange.rank() / 2 : exchange.rank() - merged_),
      combine_(reduce_kernel(dtype, reduction.op)),
      count_(values.size() / size_of(dtype)),
      scratch_(exchange.workspace().scratch(values.size(), area)) {}

// The rank whose place differs in this bit. Places have no gaps and keep the order of the ranks.
int ShortAllReduce::partner(int bit) const {
  const int place = place_ ^ bit;
  return place < merged_ ? 2 * place + 1 : place + merged_;
}

ShortAllReduce::Round ShortAllReduce::start_round(int bit) {
  Exchange::Receive theirs = exchange_.receive(partner(bit), scratch_);
  return {bit, std::move(theirs), exchange_.send(partner(bit), values_)};
}

void ShortAllReduce::finish_round(Round round) {
  std::byte* const ours = values_.data();
  const std::byte* const theirs = round.theirs.wait().data();
  round.ours.wait();  // before its memory changes
  const bool theirs_first = (place_ & round.bit) != 0;
  combine_(ours, theirs_first ? theirs : ours, theirs_first ? ours : theirs, count_);
}

void ShortAllReduce::begin() {
  const int rank = exchange_.rank();
  prepare(values_, dtype_, reduction_, exchange_.size());
  const bool is_merged = rank < 2 * merged_;
  if (!is_merged) first_ = start_round(1);
  if (is_merged && rank % 2 == 0) exchange_.send(rank + 1, values_);
}

void ShortAllReduce::finish() {
  const int rank = exchange_.rank();
  const bool is_merged = rank < 2 * merged_;
  if (is_merged && rank % 2 == 0) return exchange_.receive(rank + 1, values_).wait_in_place();
  if (is_merged) {
    Exchange::Receive message = exchange_.receive(rank - 1, scratch_);
    combine_(values_.data(), message.wait().data(), values_.data(), count_);
  }
  if (first_) finish_round(*std::exchange(first_, std::nullopt));
  for (int bit = is_merged ? 1 : 2; bit < power_; bit *= 2) finish_round(start_round(bit));
  if (is_merged) exchange_.send(rank - 1, values_);
}

// Recursive halving: in each round a rank gives one half of what it still has to a partner, and combines the
// other half with the partner's, until each rank has finished one block; then recursive doubling returns the
// blocks to all ranks on the same routes. As few bytes as the ring and only 2 log2(size) rounds, but whole
// blocks wait for each other: for vectors of middle length. (R. Rabenseifner: "Optimization of collective
// reduction operations", 2004.) One rank finishes each block and the others copy it, hence the same bits
// everywhere.
void all_reduce_by_halving(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  using Bytes = std::span<std::byte>;
  struct Round {
    int partner;
    Bytes given;  // the partner continues with it
    Bytes kept;
  };
  const std::size_t element = size_of(dtype);
  const ReduceKernel combine = reduce_kernel(dtype, op);
  const Bytes scratch = exchange.workspace().scratch(values.size() / 2 + element);

  std::vector<Round> rounds;
  std::vector<Exchange::Send> sent;
  Bytes mine = values;
  for (int distance = exchange.size() / 2; distance > 0; distance /= 2) {
    const Bytes lower = mine.first(mine.size() / element / 2 * element);
    const Bytes upper = mine.subspan(lower.size());
    const bool is_lower = (exchange.rank() & distance) == 0;
    const Round round{exchange.rank() ^ distance, is_lower ? upper : lower, is_lower ? lower : upper};
    Exchange::Receive message = exchange.receive(round.partner, scratch.first(round.kept.size()));
    Exchange::Send own = exchange.send(round.partner, round.given);
    const std::byte* const theirs = message.wait().data();
    std::byte* const ours = round.kept.data();
    combine(ours, is_lower ? ours : theirs, is_lower ? theirs : ours, round.kept.size() / element);
    own.wait();  // its memory gets the result later
    rounds.push_back(round);
    mine = round.kept;
  }
  for (; !rounds.empty(); rounds.pop_back()) {
    const Round& round = rounds.back();
    Exchange::Receive message = exchange.receive(round.partner, round.given);
    sent.push_back(exchange.send(round.partner, round.kept));
    message.wait_in_place();
  }
  wait_for_all(sent);
}

// Ring: the vector is cut into one chunk for each rank. In the first size-1 steps each rank
// passes a chunk to the right, adding its own values, after which it holds the finished chunk
// number rank+1; in the next size-1 steps the finished chunks go round. Every rank sends 2 *
// (size-1) / size of the vector, which is the least possible. (P. Patarasuk, X. Yuan:
// "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.)
//
// One rank finishes each chunk and the others copy it, hence the same bits everywhere. Chunks travel in
// segments, some of which are under way while one is added.
void all_reduce_by_ring(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  constexpr std::size_t receives_ahead = 3;

  const std::size_t size = static_cast<std::size_t>(exchange.size());
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  const std::size_t element = size_of(dtype);
  const std::size_t count = values.size() / element;
  const ReduceKernel combine = reduce_kernel(dtype, op);

  // All chunks have the same number of segments, so that the k-th message to the right is the k-th from the
  // left. Lengths differ by at most one element.
  const std::size_t segments = all_reduce_ring_segments(size, count, element);
  const std::size_t pieces = size * segments;
  const auto values_of = [&](RingSchedule::Piece at) {
    const EvenPart part(count, pieces, at.block * segments + at.segment);
    return values.subspan(part.begin * element, part.length * element);
  };

  const RingSchedule ring(rank, size, segments, rank);
  const std::size_t reducing = ring.round();  // messages; later ones carry finished segments
  const std::size_t messages = 2 * reducing;
  const auto outgoing = [&](std::size_t k) { return values_of(ring.outgoing(k)); };
  const auto incoming = [&](std::size_t k) { return values_of(ring.incoming(k)); };

  const std::size_t slot_bytes = (count / pieces + 1) * element;
  const std::size_t slot_stride = (slot_bytes + 63) / 64 * 64;
  const std::span<std::byte> scratch = exchange.workspace().scratch(receives_ahead * slot_stride);

  std::deque<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;  // waited for at the end: an earlier wait could only slow us down
  sent.reserve(messages);
  std::size_t posted = 0;
  const auto post_receives = [&](std::size_t done) {
    for (; posted < std::min(messages, done + receives_ahead); ++posted) {
      const std::span<std::byte> target = incoming(posted);
      std::byte* const slot = scratch.data() + (posted % receives_ahead) * slot_stride;
      expected.push_back(
          exchange.receive(ring.left(), posted < reducing ? std::span(slot, target.size()) : target));
    }
  };

  post_receives(0);
  for (std::size_t k = 0; k < segments; ++k) sent.push_back(exchange.send(ring.right(), outgoing(k)));
  for (std::size_t k = 0; k < messages; ++k) {
    const std::span<std::byte> target = incoming(k);
    if (k < reducing) {
      combine(target.data(), expected.front().wait().data(), target.data(), target.size() / element);
    } else {
      expected.front().wait_in_place();
    }
    expected.pop_front();
    // The segment that has just arrived, and was perhaps added to, goes to the right one step later. It may
    // overwrite values that were sent earlier: the peer has received those, or this message could not exist.
    if (k + segments < messages) sent.push_back(exchange.send(ring.right(), outgoing(k + segments)));
    post_receives(k + 1);
  }
  wait_for_all(sent);
}

std::size_t all_reduce_ring_segments(std::size_t ranks, std::size_t count, std::size_t element) {
  constexpr std::size_t shortest_segment = std::size_t{512} * 1024;
  constexpr std::size_t longest_segment = std::size_t{1024} * 1024;
  const std::size_t chunk_bytes = (count / ranks + 1) * element;
  const std::size_t segment_bytes = std::clamp(chunk_bytes / 4, shortest_segment, longest_segment);
  return (chunk_bytes + segment_bytes - 1) / segment_bytes;
}

AllReduceAlgorithm all_reduce_algorithm(int ranks, std::size_t bytes) {
  constexpr std::size_t halving_limit = std::size_t{1} << 20;
  if (ShortAllReduce::suits(ranks, bytes)) return AllReduceAlgorithm::doubling;
  const bool is_power = std::has_single_bit(static_cast<unsigned>(ranks));
  return bytes <= halving_limit && is_power ? AllReduceAlgorithm::halving : AllReduceAlgorithm::ring;
}

void all_reduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction) {
  if (is_integer_avg(dtype, reduction)) {
    return average(values, dtype, exchange.size(), true, [&exchange](std::span<std::byte> parts) {
      all_reduce(exchange, parts, DType::int64, {});
    });
  }
  const AllReduceAlgorithm algorithm = all_reduce_algorithm(exchange.size(), values.size());
  if (exchange.size() > 1 && algorithm == AllReduceAlgorithm::doubling) {
    ShortAllReduce parts(exchange, values, dtype, reduction);
    parts.begin();
    parts.finish();
    return;
  }
  prepare(values, dtype, reduction, exchange.size());
  if (exchange.size() > 1) {
    if (algorithm == AllReduceAlgorithm::halving) {
      all_reduce_by_halving(exchange, values, dtype, reduction.op);
    } else {
      all_reduce_by_ring(exchange, values, dtype, reduction.op);
    }
  }
}

}  // namespace dlaunch::internal
