#include "runtime/collectives/all_to_all.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "runtime/collectives/copy_block.h"

namespace dlaunch::internal {

// Pairwise exchange: in step k each rank sends to the rank k to the right and receives from the rank k to the
// left, so that at no time all ranks send to the same one. (R. Thakur et al., 2005, section 4.3.) Some steps
// are under way at once.
void all_to_all(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::span<const std::byte>> inputs) {
  constexpr std::size_t steps_ahead = 8;
  const std::size_t size = static_cast<std::size_t>(exchange.size());
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());

  if (size == 1) return copy_block(outputs[rank].data(), inputs[rank]);

  std::deque<Exchange::Receive> expected;
  std::vector<Exchange::Send> sent;
  sent.reserve(size);
  std::size_t posted = 1;  // the next step
  const auto post = [&](std::size_t end) {
    for (; posted < std::min(size, end); ++posted) {
      const std::size_t from = (rank + size - posted) % size;
      const std::size_t to = (rank + posted) % size;
      expected.push_back(exchange.receive(static_cast<int>(from), outputs[from]));
      sent.push_back(exchange.send(static_cast<int>(to), inputs[to]));
    }
  };
  post(1 + steps_ahead);
  // While the messages are under way.
  copy_block(outputs[rank].data(), inputs[rank]);
  for (std::size_t step = 1; step < size; ++step) {
    post(step + steps_ahead);
    expected.front().wait_in_place();
    expected.pop_front();
  }
  wait_for_all(sent);
}

}  // namespace dlaunch::internal
