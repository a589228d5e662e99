#include "agent/control/stall_monitor.h"

#include <algorithm>

namespace dlaunch::agent {

// For a note alone, which need not come on the second, a few looks are enough.
StallMonitor::StallMonitor(Duration hang_timeout, Duration hang_note)
    : limit_(hang_timeout), longest_period_(std::chrono::seconds(hang_timeout > Duration(0) ? 1 : 5)) {
  if (hang_note > Duration(0) && (limit_ == Duration(0) || hang_note < limit_)) limit_ = hang_note;
}

Duration StallMonitor::period() const {
  constexpr Duration shortest = std::chrono::milliseconds(10);
  return std::clamp(limit_ / 8, shortest, longest_period_);
}

void StallMonitor::begin(TimePoint now) {
  looked_ = quiet_since_ = now;
  last_ = {};
  asking_since_.reset();
}

Duration StallMonitor::observe(TimePoint now, const Activity& activity) {
  const bool late = now - looked_ > latest_look();
  const bool has_moved =
      activity.moves != last_.moves || activity.open != last_.open || activity.minor != last_.minor;
  if (late || has_moved) quiet_since_ = now;
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

Duration StallMonitor::polling() const { return asking_since_ ? looked_ - *asking_since_ : Duration(0); }

}  // namespace dlaunch::agent
