#include "runtime/collectives/all_gather.h"

#include <cstring>
#include <vector>

namespace dlaunch {

// Ring: in each of size-1 steps every rank passes to the right what it got from the left one step before,
// beginning with its own block. (R. Thakur et al., 2005, section 4.1.)
void all_gather(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::byte> input) {
  const std::size_t size = outputs.size();
  const std::size_t rank = static_cast<std::size_t>(exchange.rank());
  const int left = static_cast<int>((rank + size - 1) % size);
  const int right = static_cast<int>((rank + 1) % size);

  if (!input.empty() && input.data() != outputs[rank].data()) {
    std::memmove(outputs[rank].data(), input.data(), input.size());
  }
  std::vector<Exchange::Send> sent;
  sent.reserve(size);
  for (std::size_t step = 0; step + 1 < size; ++step) {
    Exchange::Receive message = exchange.receive(left, outputs[(rank + size - step - 1) % size]);
    sent.push_back(exchange.send(right, outputs[(rank + size - step) % size]));
    message.wait_in_place();
  }
  for (Exchange::Send& message : sent) message.wait();
}

}  // namespace dlaunch
