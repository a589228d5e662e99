#include "runtime/collectives/all_gather.h"

#include <algorithm>
#include <vector>

#include "runtime/collectives/copy_block.h"

namespace dlaunch::internal {

// Ring: in each of size-1 steps every rank passes to the right what it got from the left one step before. It
// begins with its own block. (R. Thakur et al., 2005, section 4.1.)
void all_gather_by_ring(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                        std::span<const std::byte> input) {
  const std::size_t size = outputs.size();
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  const int left = static_cast<int>((rank + size - 1) % size);
  const int right = static_cast<int>((rank + 1) % size);

  copy_block(outputs[rank].data(), input);
  std::vector<Exchange::Send> sent;
  sent.reserve(size);
  for (std::size_t step = 0; step + 1 < size; ++step) {
    Exchange::Receive message = exchange.receive(left, outputs[(rank + size - step - 1) % size]);
    sent.push_back(exchange.send(right, outputs[(rank + size - step) % size]));
    message.wait_in_place();
  }
  wait_for_all(sent);
}

// Pairwise: every rank sends its own block to every other rank. As many bytes as the ring, and no rank waits
// for a block to come round; but all messages are under way at once: for blocks of middle length.
void all_gather_pairwise(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                         std::span<const std::byte> input) {
  const std::size_t size = outputs.size();
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  std::vector<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  expected.reserve(size);
  sent.reserve(size);
  for (std::size_t step = 1; step < size; ++step) {
    const std::size_t from = (rank + size - step) % size;
    expected.push_back(exchange.receive(static_cast<int>(from), outputs[from]));
  }
  for (std::size_t step = 1; step < size; ++step) {
    sent.push_back(exchange.send(static_cast<int>((rank + step) % size), input));
  }
  copy_block(outputs[rank].data(), input);
  wait_for_all(expected);
  wait_for_all(sent);
}

// Each rank keeps a row of blocks that begins with its own and continues with those of the ranks to the
// right. In round k it gets the next 2^k blocks from the rank 2^k to the right, and sends its row to the rank
// 2^k to the left: log2(size) rounds. (J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: "Efficient
// algorithms for all-to-all communications in multiport message-passing systems", 1997.)
void all_gather_by_doubling(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                            std::span<const std::byte> input) {
  const std::size_t size = outputs.size();
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  std::vector<std::size_t> offsets(size + 1);  // in the row
  for (std::size_t i = 0; i < size; ++i) offsets[i + 1] = offsets[i] + outputs[(rank + i) % size].size();
  const std::span<std::byte> row = exchange.workspace().scratch(offsets[size]);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return row.subspan(offsets[begin], offsets[end] - offsets[begin]);
  };

  copy_block(row.data(), input);
  for (std::size_t distance = 1; distance < size; distance *= 2) {
    const std::size_t blocks = std::min(distance, size - distance);
    Exchange::Receive message =
        exchange.receive(static_cast<int>((rank + distance) % size), part(distance, distance + blocks));
    Exchange::Send own = exchange.send(static_cast<int>((rank + size - distance) % size), part(0, blocks));
    message.wait_in_place();
    own.wait();
  }
  for (std::size_t i = 0; i < size; ++i) copy_block(outputs[(rank + i) % size].data(), part(i, i + 1));
}

void all_gather(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::byte> input) {
  std::size_t total = 0;
  for (const std::span<std::byte> output : outputs) total += output.size();
  constexpr std::size_t pairwise_limit = std::size_t{1} << 20;
  constexpr std::size_t pairwise_ranks = 64;  // more at once would only queue
  if (total <= Exchange::fragment_limit) {
    all_gather_by_doubling(exchange, outputs, input);
  } else if (total <= pairwise_limit && outputs.size() <= pairwise_ranks) {
    all_gather_pairwise(exchange, outputs, input);
  } else {
    all_gather_by_ring(exchange, outputs, input);
  }
}

}  // namespace dlaunch::internal
