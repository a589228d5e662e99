#include "runtime/collectives/reduce_to_root.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "runtime/collectives/reduce_scatter.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

namespace {

// Binomial tree: counted from the root, rank r collects from r + 1, r + 2, r + 4, ... below its lowest bit,
// and sends the result to r without that bit. (R. Thakur et al., 2005, section 4.4.) For short vectors.
void by_tree(Exchange& exchange, std::span<std::byte> sum, DType dtype, ReduceOp op, int root) {
  const unsigned size = static_cast<unsigned>(exchange.size());
  const unsigned place = (static_cast<unsigned>(exchange.rank() - root) + size) % size;
  const auto rank_at = [&](unsigned p) { return static_cast<int>((p + static_cast<unsigned>(root)) % size); };
  const unsigned below = place == 0 ? std::bit_ceil(size) : place & (0U - place);  // the lowest bit
  const ReduceKernel combine = reduce_kernel(dtype, op);
  const std::size_t count = sum.size() / size_of(dtype);

  std::vector<Exchange::Receive> expected;
  for (unsigned bit = 1; bit < below && place + bit < size; bit *= 2) {
    expected.push_back(exchange.receive(rank_at(place + bit), sum));
  }
  for (Exchange::Receive& message : expected) combine(sum.data(), sum.data(), message.wait().data(), count);
  if (place != 0) exchange.send(rank_at(place - below), sum).wait();
}

// Reduce-scatter, then gather: each rank reduces one block, and the root collects the blocks. (R.
// Rabenseifner: "Optimization of collective reduction operations", 2004; with the ring for the first part.)
void by_blocks(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction,
               int root) {
  const std::size_t size = static_cast<std::size_t>(exchange.size());
  const std::size_t element = size_of(dtype);
  const std::size_t count = values.size() / element;
  std::vector<std::span<const std::byte>> blocks;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = count * i / size;
    const std::size_t end = count * (i + 1) / size;
    blocks.push_back(values.subspan(begin * element, (end - begin) * element));
  }
  const auto place = [&](std::size_t i) {
    return values.subspan(static_cast<std::size_t>(blocks[i].data() - values.data()), blocks[i].size());
  };
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  if (exchange.rank() != root) {
    const std::span<std::byte> sum = exchange.workspace().scratch(blocks[rank].size(), 1);
    reduce_scatter_by_ring(exchange, sum, blocks, dtype, reduction);
    exchange.send(root, sum).wait();
    return;
  }
  reduce_scatter_by_ring(exchange, place(rank), blocks, dtype, reduction);
  std::vector<Exchange::Receive> expected;
  expected.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (i != rank) expected.push_back(exchange.receive(static_cast<int>(i), place(i)));
  }
  wait_for_all(expected);
}

}  // namespace

void reduce_to_root(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction,
                    int root) {
  const bool is_root = exchange.rank() == root;
  if (is_integer_avg(dtype, reduction)) {
    return average(values, dtype, exchange.size(), is_root, [&](std::span<std::byte> parts) {
      reduce_to_root(exchange, parts, DType::int64, {}, root);
    });
  }
  if (values.size() > Exchange::fragment_limit && exchange.size() > 1) {
    by_blocks(exchange, values, dtype, reduction, root);
  } else {
    std::span<std::byte> sum = values;
    if (!is_root) {
      sum = exchange.workspace().scratch(values.size());
      if (!values.empty()) std::memcpy(sum.data(), values.data(), values.size());
    }
    prepare(sum, dtype, reduction, exchange.size());
    by_tree(exchange, sum, dtype, reduction.op, root);
  }
}

}  // namespace dlaunch::internal
