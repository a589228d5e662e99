// The Works of receives that have ended before their call returns: a Work for each receive would take an
// allocation, which is a large part of a short message's time.
#pragma once

#include <cstddef>
#include <vector>

#include "dlaunch/work.h"

namespace dlaunch::internal {

inline Work ended_receive(int from) {
  const WorkSource source;
  source.succeed_from(from);
  return source.work();
}

// One for each of so many ranks, as the message's source.
inline std::vector<Work> ended_receives(int ranks) {
  std::vector<Work> result;
  result.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) result.push_back(ended_receive(rank));
  return result;
}

}  // namespace dlaunch::internal
