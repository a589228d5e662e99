// Whom a rank is to blame that has waited in vain, from how far the others have come. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace dlaunch {

struct RankProgress {
  int rank;
  std::uint64_t entered;  // the number of the latest operation
};

// Of those who have not entered operation `number` who has come least far: the others may be waiting for them
// in an earlier operation, which this rank was through with before it was complete.
inline std::vector<int> stragglers(std::span<const RankProgress> others, std::uint64_t number) {
  std::vector<int> result;
  std::uint64_t least = number;
  for (const RankProgress& other : others) least = std::min(least, other.entered);
  for (const RankProgress& other : others) {
    if (other.entered == least && least < number) result.push_back(other.rank);
  }
  return result;
}

}  // namespace dlaunch
