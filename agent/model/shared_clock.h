// The clock that the nodes of a job share: the wall clock of its leader, as one node reads it.
#pragma once

#include <cstdint>

namespace dlaunch::agent {

struct SharedClock {
  std::int64_t id = 0;                    // equal on the nodes that share it; 0: there is none
  std::int64_t unix_minus_steady_ns = 0;  // the shared clock minus this host's steady clock
  std::int64_t error_ns = 0;              // at most so far from the leader's own reading
  bool operator==(const SharedClock&) const = default;
};

}  // namespace dlaunch::agent
