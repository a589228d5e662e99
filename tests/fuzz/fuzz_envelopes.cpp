// libFuzzer: a block of envelopes, as another rank's messenger might send it. Results lie within the block.
#include <span>

#include "runtime/point_to_point/envelope.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void fuzz(FuzzInput input) {
  std::span<const std::byte> block = input.bytes();
  unsigned sum = 0;
  for (bool is_last = false; !is_last;) {
    const auto envelope = dlaunch::internal::parse_envelope(block);
    if (!envelope) break;
    require(envelope->carried() <= dlaunch::internal::short_message);
    for (const std::byte byte : block.subspan(sizeof *envelope, envelope->carried())) {
      sum += std::to_integer<unsigned>(byte);
    }
    block = block.subspan(sizeof *envelope + envelope->carried());
    is_last = envelope->is_last != 0;
  }
  [[maybe_unused]] static volatile unsigned read = 0;
  read = sum;
}

}  // namespace
