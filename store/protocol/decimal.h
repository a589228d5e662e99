// How the stores parse the number that ADD finds: as PyTorch does, by the rules of C's strtoll.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dlaunch::store {

// Blanks, a sign, digits; later characters are ignored. None: no digits, or a number beyond 64 bits.
std::optional<std::int64_t> leading_decimal(std::string_view text);

// Addition that wraps around at the ends of the range, as PyTorch's counters do.
inline std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace dlaunch::store
