// The clock of everything here that blocks: the machine's steady one. Code on the event loop is given the
// time instead (base/time.h).
#pragma once

#include "store/base/time.h"

namespace dlaunch {

TimePoint steady_now();
// `now` and so much, at most some years: a timeout of "for ever" does not wrap around.
TimePoint deadline_after(TimePoint now, Duration timeout);

}  // namespace dlaunch
