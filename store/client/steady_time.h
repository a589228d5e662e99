// The steady clock of the machine, for blocking code. Code on the event loop gets the time as an argument
// (base/time.h).
#pragma once

#include "store/base/time.h"

namespace dlaunch::store {

TimePoint steady_now();
// `now` plus the duration, at most some years: a timeout of "for ever" does not wrap around.
TimePoint deadline_after(TimePoint now, Duration timeout);

}  // namespace dlaunch::store
