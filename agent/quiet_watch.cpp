#include "agent/quiet_watch.h"

#include <algorithm>

namespace dlaunch::agent {

Duration QuietWatch::period() const {
  constexpr Duration shortest = std::chrono::milliseconds(10);
  constexpr Duration longest = std::chrono::seconds(1);
  return std::clamp(limit_ / 8, shortest, longest);
}

void QuietWatch::begin(TimePoint now) {
  looked_ = quiet_since_ = now;
  last_ = {};
}

Duration QuietWatch::see(TimePoint now, const Activity& activity) {
  const bool late = now - looked_ > 2 * period() + std::chrono::seconds(1);
  if (late || activity != last_) quiet_since_ = now;
  looked_ = now;
  last_ = activity;
  return now - quiet_since_;
}

}  // namespace dlaunch::agent
