#include <algorithm>
#include <cstdlib>
#include <deque>
#include <vector>

#include "runtime/collectives/all_reduce.h"
#include "runtime/reduce.h"

namespace dlaunch {

// Each rank finishes one block of the values: it gets that block from all others, adds them up in a fixed order,
// and gives the result to all: a pairwise reduce-scatter (R. Thakur et al., 2005, section 4.3) and a pairwise
// all-gather. As few bytes as the ring and as many messages, but two steps instead of 2 * (size-1): nobody waits
// for a message to come round. What it needs is a connection of its own for each pair that is as good as those
// between neighbours; so it is for groups that are not too large.
//
// Each block is finished by one rank and copied to the others, hence the same bits everywhere. Blocks travel in
// segments, some of which are under way while one is added, and go on to the others one by one.
void all_reduce_pairwise(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  const char* const pick = std::getenv("PICK");
  const bool in_line = pick && *pick == 'l';
  const std::size_t segment_bytes = in_line ? Exchange::eager_limit - 64 : std::size_t{512} * 1024;
  constexpr std::size_t window_bytes = std::size_t{2} * 1024 * 1024;  // of receives ahead

  const std::size_t size = static_cast<std::size_t>(exchange.size());
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  const std::size_t element = size_of(dtype);
  const std::size_t count = values.size() / element;
  const ReduceKernel combine = reduce_kernel(dtype, op);

  const std::size_t longest = (count / size + 1) * element;
  const std::size_t segments = (longest + segment_bytes - 1) / segment_bytes;
  const std::size_t pieces = size * segments;
  const auto piece = [&](std::size_t block, std::size_t segment) {
    const std::size_t number = block * segments + segment;
    // count / pieces elements each, the remainder spread over the first ones.
    const std::size_t even = count / pieces;
    const std::size_t extra = count % pieces;
    const std::size_t begin = number * even + std::min(number, extra);
    return values.subspan(begin * element, (even + (number < extra ? 1 : 0)) * element);
  };
  // The others, beginning at the right: at no time everybody sends to the same one.
  const auto peer = [&](std::size_t step) { return (rank + 1 + step) % size; };
  const std::size_t peers = size - 1;

  const std::size_t stride = ((count / pieces + 1) * element + 63) / 64 * 64;
  const std::size_t window = std::clamp(window_bytes / stride, std::size_t{2}, segments * peers);
  const std::span<std::byte> scratch = exchange.workspace().scratch(window * stride);

  std::vector<Exchange::Send> sent;  // waited for at the end: an earlier wait could only slow us down
  sent.reserve(2 * segments * peers);
  const auto send_segment = [&](std::size_t k) {
    for (std::size_t step = 0; step < peers; ++step) {
      sent.push_back(exchange.send(static_cast<int>(peer(step)), piece(peer(step), k)));
    }
  };
  std::size_t given = 0;
  for (; given < (in_line ? std::min<std::size_t>(3, segments) : segments); ++given) send_segment(given);
  std::size_t gathered = 0;
  const auto gather_segment = [&] {
    for (std::size_t step = 0; step < peers; ++step) {
      exchange.receive(static_cast<int>(peer(step)), piece(peer(step), gathered)).wait_in_place();
    }
    ++gathered;
  };

  // Message k is segment k / peers of this rank's block, from peer(k % peers).
  std::deque<Exchange::Receive> expected;
  std::size_t posted = 0;
  for (std::size_t k = 0; k < segments * peers; ++k) {
    const std::span<std::byte> own = piece(rank, k / peers);
    if (in_line && k % peers == 0 && k / peers >= 3) gather_segment();
    for (; posted < std::min(k + window, segments * peers); ++posted) {
      std::byte* const slot = scratch.data() + posted % window * stride;
      expected.push_back(exchange.receive(static_cast<int>(peer(posted % peers)),
                                          {slot, piece(rank, posted / peers).size()}));
    }
    combine(own.data(), own.data(), expected.front().wait().data(), own.size() / element);
    expected.pop_front();
    if (k % peers != peers - 1) continue;
    for (std::size_t step = 0; step < peers; ++step) {
      sent.push_back(exchange.send(static_cast<int>(peer(step)), own));
    }
    if (in_line) {
      if (given < segments) send_segment(given++);
    }
  }
  if (in_line) {
    while (gathered < segments) gather_segment();
    return;
  }

  // The finished blocks may overwrite values that were sent: those have been received, or they were not finished.
  for (std::size_t k = 0; k < segments; ++k) {
    for (std::size_t step = 0; step < peers; ++step) {
      expected.push_back(exchange.receive(static_cast<int>(peer(step)), piece(peer(step), k)));
    }
  }
  for (Exchange::Receive& message : expected) message.wait_in_place();
  for (Exchange::Send& message : sent) message.wait();
}

}  // namespace dlaunch
