#include "runtime/collectives/reduce_to_root.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <vector>

#include "runtime/collectives/reduce_scatter.h"
#include "runtime/collectives/ring_schedule.h"
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

// Two ranks. The root adds what the other one sends, in segments, of which some are under way while one is
// added: as few bytes to the root as by blocks, and none from it.
class ByPair {
 public:
  ByPair(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction)
      : exchange_(exchange),
        values_(values),
        dtype_(dtype),
        reduction_(reduction),
        segments_((values.size() + segment_bytes - 1) / segment_bytes) {}

  void send_to(int root) {
    std::span<std::byte> own = values_;
    if (needs_preparing(dtype_, reduction_)) {
      own = exchange_.workspace().scratch(values_.size());
      std::memcpy(own.data(), values_.data(), values_.size());
      prepare(own, dtype_, reduction_, exchange_.size());
    }
    std::vector<Exchange::Send> sent;
    sent.reserve(segments_);
    for (std::size_t number = 0; number < segments_; ++number)
      sent.push_back(exchange_.send(root, segment(own, number)));
    wait_for_all(sent);
  }

  void add_from(int peer) {
    prepare(values_, dtype_, reduction_, exchange_.size());
    const ReduceKernel combine = reduce_kernel(dtype_, reduction_.op);
    const std::size_t slot_size = segment(values_, 0).size();  // no other one is longer
    const std::span<std::byte> slots = exchange_.workspace().scratch(receives_ahead * slot_size);
    std::deque<Exchange::Receive> expected;
    std::size_t posted = 0;
    for (std::size_t number = 0; number < segments_; ++number) {
      for (; posted < std::min(segments_, number + receives_ahead); ++posted) {
        const std::size_t length = segment(values_, posted).size();
        expected.push_back(
            exchange_.receive(peer, slots.subspan(posted % receives_ahead * slot_size, length)));
      }
      const std::span<std::byte> sum = segment(values_, number);
      combine(sum.data(), sum.data(), expected.front().wait().data(), sum.size() / size_of(dtype_));
      expected.pop_front();
    }
  }

 private:
  static constexpr std::size_t segment_bytes = std::size_t{512} * 1024;
  static constexpr std::size_t receives_ahead = 3;

  [[nodiscard]] std::span<std::byte> segment(std::span<std::byte> of, std::size_t number) const {
    const std::size_t element = size_of(dtype_);
    const EvenPart part(of.size() / element, segments_, number);
    return of.subspan(part.begin * element, part.length * element);
  }

  Exchange& exchange_;
  const std::span<std::byte> values_;
  const DType dtype_;
  const Reduction reduction_;
  const std::size_t segments_;
};

}  // namespace

void reduce_to_root(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction,
                    int root) {
  const bool is_root = exchange.rank() == root;
  if (is_integer_avg(dtype, reduction)) {
    return average(values, dtype, exchange.size(), is_root, [&](std::span<std::byte> parts) {
      reduce_to_root(exchange, parts, DType::int64, {}, root);
    });
  }
  if (values.size() > Exchange::fragment_limit && exchange.size() == 2) {
    ByPair pair(exchange, values, dtype, reduction);
    is_root ? pair.add_from(1 - root) : pair.send_to(root);
  } else if (values.size() > Exchange::fragment_limit && exchange.size() > 2) {
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
