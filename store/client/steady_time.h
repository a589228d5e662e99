// The steady clock of the machine, for blocking code. Code on the event loop gets the time as an argument
// (base/time.h).
#pragma once

#include "store/base/time.h"

namespace dlaunch::store {

TimePoint steady_now();

// A timeout of "for ever" must not wrap around.
constexpr Duration longest_timeout = std::chrono::hours(24 * 365 * 10);
// `now` plus the duration, at most the longest timeout.
TimePoint deadline_after(TimePoint now, Duration timeout);

}  // namespace dlaunch::store
