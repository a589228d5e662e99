#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"
#include "runtime/collectives/workspace.h"

namespace dlaunch::internal {

// all_reduce of each of `tensors`, as one call. Short ones travel together.
// REQUIRES: one dtype, !why_not_allowed(dtype, reduction.op), the same sizes on all ranks.
void all_reduce_coalesced(Exchange& exchange, std::span<const std::span<std::byte>> tensors, DType dtype,
                          const Reduction& reduction);

// The same with any all_reduce: `reduce` gets the short ones packed together, then each long one. Uses the
// workspace's area 1.
template <class Reduce>
void pack_and_reduce(Workspace& workspace, std::span<const std::span<std::byte>> tensors,
                     const Reduce& reduce) {
  // Below this a message costs more than the two copies.
  constexpr std::size_t packed_limit = Exchange::fragment_limit;
  const auto is_packed = [](std::span<std::byte> tensor) { return tensor.size() <= packed_limit; };

  std::size_t together = 0;
  for (const std::span<std::byte> tensor : tensors) {
    if (is_packed(tensor)) together += tensor.size();
  }
  const std::span<std::byte> pack = workspace.scratch(together, 1);
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
  reduce(pack);
  for_each_part([](const std::byte* place, std::span<std::byte> part) {
    std::memcpy(part.data(), place, part.size());
  });
  for (const std::span<std::byte> tensor : tensors) {
    if (!is_packed(tensor)) reduce(tensor);
  }
}

}  // namespace dlaunch::internal
