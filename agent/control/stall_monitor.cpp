#include "agent/control/stall_monitor.h"

#include <algorithm>

namespace dlaunch::agent {

Duration StallMonitor::period() const {
  constexpr Duration shortest = std::chrono::milliseconds(10);
  constexpr Duration longest = std::chrono::seconds(1);
  return std::clamp(limit_ / 8, shortest, longest);
}

void StallMonitor::begin(TimePoint now) {
  looked_ = quiet_since_ = now;
  last_ = {};
  asking_since_.reset();
}

Duration StallMonitor::observe(TimePoint now, const Activity& activity) {
  const bool late = now - looked_ > 2 * period() + std::chrono::seconds(1);
  if (late || activity.moves != last_.moves || activity.open != last_.open) quiet_since_ = now;
  note_asks(now, activity.asks);
  looked_ = now;
  last_ = activity;
  return now - quiet_since_;
}

void StallMonitor::note_asks(TimePoint now, std::uint64_t asks) {
  constexpr Duration longest_pause = std::chrono::seconds(5);
  if (asking_since_ && now - asked_ > std::min(limit_ / 2, longest_pause)) asking_since_.reset();
  if (asks == last_.asks) return;
  asked_ = now;
  if (!asking_since_) asking_since_ = now;
}

bool StallMonitor::saw_long_polling() const { return asking_since_ && looked_ - *asking_since_ >= limit_; }

}  // namespace dlaunch::agent
