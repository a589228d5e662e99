#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "runtime/collectives/all_reduce.h"
#include "runtime/reduce.h"

namespace dlaunch {

namespace {

using Bytes = std::span<std::byte>;

// Sends `outgoing` to the partner and combines `kept` with what it sends, in segments of which some are under
// way while one is combined. The same values on both sides, `low_first` on one.
class HalfExchange {
 public:
  HalfExchange(Exchange& exchange, DType dtype, ReduceOp op)
      : exchange_(exchange), element_(size_of(dtype)), combine_(reduce_kernel(dtype, op)) {}

  void run(int partner, Bytes outgoing, Bytes kept) {
    const std::size_t step = segment_bytes / element_ * element_;
    const Bytes scratch = exchange_.workspace().scratch(receives_ahead * step);
    std::vector<Exchange::Send> sent;
    for (std::size_t begin = 0; begin < outgoing.size(); begin += step) {
      sent.push_back(exchange_.send(partner, outgoing.subspan(begin, std::min(step, outgoing.size() - begin))));
    }
    std::deque<Exchange::Receive> expected;
    std::size_t posted = 0;
    for (std::size_t begin = 0, slot = 0; begin < kept.size(); begin += step) {
      for (; posted < kept.size() && expected.size() < receives_ahead; posted += step) {
        const std::size_t length = std::min(step, kept.size() - posted);
        expected.push_back(exchange_.receive(partner, scratch.subspan(slot * step, length)));
        slot = (slot + 1) % receives_ahead;
      }
      const Bytes own = kept.subspan(begin, std::min(step, kept.size() - begin));
      const std::byte* const theirs = expected.front().wait().data();
      const bool theirs_first = partner < exchange_.rank();
      combine_(own.data(), theirs_first ? theirs : own.data(), theirs_first ? own.data() : theirs,
               own.size() / element_);
      expected.pop_front();
    }
    for (Exchange::Send& message : sent) message.wait();
  }

 private:
  static constexpr std::size_t segment_bytes = std::size_t{512} * 1024;
  static constexpr std::size_t receives_ahead = 3;

  Exchange& exchange_;
  const std::size_t element_;
  const ReduceKernel combine_;
};

}  // namespace

// Recursive halving: in each round a rank gives half of what it still has to do to a partner, and takes the
// partner's contribution to the other half, until everybody has finished one block; then recursive doubling
// brings the blocks back to all on the same ways. As few bytes as the ring, but 2 log2(size) rounds. (R.
// Rabenseifner: "Optimization of collective reduction operations", 2004.)
//
// Each block is finished by one rank and copied to the others, hence the same bits everywhere.
void all_reduce_by_halving(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  const int rank = exchange.rank();
  const std::size_t element = size_of(dtype);
  HalfExchange half(exchange, dtype, op);

  struct Round {
    int partner;
    Bytes given;  // the partner finishes it
    Bytes kept;
  };
  std::vector<Round> rounds;
  Bytes mine = values;
  for (int distance = exchange.size() / 2; distance > 0; distance /= 2) {
    const std::size_t middle = mine.size() / element / 2 * element;
    const Bytes lower = mine.first(middle);
    const Bytes upper = mine.subspan(middle);
    const bool is_lower = (rank & distance) == 0;
    rounds.push_back({rank ^ distance, is_lower ? upper : lower, is_lower ? lower : upper});
    half.run(rounds.back().partner, rounds.back().given, rounds.back().kept);
    mine = rounds.back().kept;
  }
  for (; !rounds.empty(); rounds.pop_back()) {
    const Round& round = rounds.back();
    Exchange::Receive message = exchange.receive(round.partner, round.given);
    Exchange::Send own = exchange.send(round.partner, round.kept);
    message.wait_in_place();
    own.wait();
  }
}

}  // namespace dlaunch
