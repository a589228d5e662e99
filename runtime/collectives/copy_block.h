// A block that a rank has itself, from its input into its output.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

namespace dlaunch::internal {

// They may be the same memory, or overlap.
inline void copy_block(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty() && to != from.data()) std::memmove(to, from.data(), from.size());
}

}  // namespace dlaunch::internal
