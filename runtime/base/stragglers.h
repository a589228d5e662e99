// Which ranks to blame for a wait that timed out, from the progress of all. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace dlaunch::internal {

struct RankProgress {
  int rank;
  std::uint64_t entered;  // the number of the latest operation
};

// Of the ranks that have not entered operation `number`, those that lag most: the others may wait for them in
// an earlier operation, which this rank has left before it was complete everywhere.
inline std::vector<int> stragglers(std::span<const RankProgress> others, std::uint64_t number) {
  std::vector<int> result;
  std::uint64_t least = number;
  for (const RankProgress& other : others) least = std::min(least, other.entered);
  for (const RankProgress& other : others) {
    if (other.entered == least && least < number) result.push_back(other.rank);
  }
  return result;
}

}  // namespace dlaunch::internal
