#include "runtime/collectives/coalesced.h"

#include "runtime/collectives/all_reduce.h"

namespace dlaunch::internal {

void all_reduce_coalesced(Exchange& exchange, std::span<const std::span<std::byte>> tensors, DType dtype,
                          const Reduction& reduction) {
  pack_and_reduce(exchange.workspace(), tensors,
                  [&](std::span<std::byte> values) { all_reduce(exchange, values, dtype, reduction); });
}

}  // namespace dlaunch::internal
