// How data that only move are cut into rounds of the staging areas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/shared_memory/copy.h"
#include "runtime/shared_memory/layout.h"

namespace dlaunch::internal {

// Bytes of a round: the reader finds them in the cache of the processor that wrote them.
inline constexpr std::size_t round_size = std::size_t{128} * 1024;
static_assert(round_size <= shared::half_staging_size);

inline std::uint64_t rounds_of(std::size_t bytes, std::size_t in_round) {
  return (bytes + in_round - 1) / in_round;
}

template <class Byte>
std::span<Byte> part(std::span<Byte> bytes, std::uint64_t round, std::size_t in_round) {
  const std::size_t begin = std::min(bytes.size(), round * in_round);
  return bytes.subspan(begin, std::min(in_round, bytes.size() - begin));
}

// Each rank reads another part of a round.
inline std::size_t part_size(std::size_t parts) {
  return std::min(round_size, shared::half_staging_size / parts / shared::line_pair * shared::line_pair);
}

}  // namespace dlaunch::internal
