#include "runtime/collectives/coalesced.h"

#include <cstring>

#include "runtime/collectives/all_reduce.h"

namespace dlaunch::internal {

void all_reduce_coalesced(Exchange& exchange, std::span<const std::span<std::byte>> tensors, DType dtype,
                          const Reduction& reduction) {
  // Below this a message costs more than the two copies.
  constexpr std::size_t packed_limit = Exchange::fragment_limit;
  const auto is_packed = [](std::span<std::byte> tensor) { return tensor.size() <= packed_limit; };

  std::size_t together = 0;
  for (const std::span<std::byte> tensor : tensors) {
    if (is_packed(tensor)) together += tensor.size();
  }
  const std::span<std::byte> pack = exchange.workspace().scratch(together, 1);
  const auto for_each_part = [&](const auto& body) {
    std::byte* place = pack.data();
    for (const std::span<std::byte> tensor : tensors) {
      if (!is_packed(tensor) || tensor.empty()) continue;
      body(place, tensor);
      place += tensor.size();
    }
  };
  for_each_part(
      [](std::byte* place, std::span<std::byte> part) { std::memcpy(place, part.data(), part.size()); });
  all_reduce(exchange, pack, dtype, reduction);
  for_each_part([](const std::byte* place, std::span<std::byte> part) {
    std::memcpy(part.data(), place, part.size());
  });
  for (const std::span<std::byte> tensor : tensors) {
    if (!is_packed(tensor)) all_reduce(exchange, tensor, dtype, reduction);
  }
}

}  // namespace dlaunch::internal
