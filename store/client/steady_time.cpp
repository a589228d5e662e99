#include "store/client/steady_time.h"

#include <algorithm>

namespace dlaunch::store {

TimePoint steady_now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

TimePoint deadline_after(TimePoint now, Duration timeout) { return now + std::min(timeout, longest_timeout); }

}  // namespace dlaunch::store
