// Points in time and durations as types of their own. There is no clock here: pure code gets `now` as an
// argument, and only the edge (UvLoop, the simulator) reads the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Names the time line; it deliberately has no now().
struct JobClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<JobClock>;
  static constexpr bool is_steady = true;
};

using Duration = JobClock::duration;
using TimePoint = JobClock::time_point;

inline double to_seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline std::int64_t to_millis(Duration d) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
}

// "250 ms", "3.2 s", "12 min 5 s": for messages.
std::string to_words(Duration d);

}  // namespace dlaunch::store
