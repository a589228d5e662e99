#include "store/client/steady_time.h"

#include <algorithm>

namespace dlaunch::store {
namespace {

constexpr Duration longest_timeout = std::chrono::hours(24 * 365 * 10);

}  // namespace

TimePoint steady_now() {
  return TimePoint(std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

TimePoint deadline_after(TimePoint now, Duration timeout) { return now + std::min(timeout, longest_timeout); }

}  // namespace dlaunch::store
