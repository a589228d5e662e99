#include "agent/control/leader_clock.h"

#include <limits>

namespace dlaunch::agent {
namespace {

// What a peer sends may be anything; differences of such times do not overflow.
constexpr std::int64_t latest = std::numeric_limits<std::int64_t>::max() / 4;

bool is_sane(std::int64_t ns) { return ns > -latest && ns < latest; }

}  // namespace

void LeaderClock::begin(std::int64_t unix_minus_stamp) {
  if (unix_minus_stamp_ == unix_minus_stamp) return;
  best_.reset();
  unix_minus_stamp_.reset();
  if (is_sane(unix_minus_stamp)) unix_minus_stamp_ = unix_minus_stamp;
}

void LeaderClock::on_answer(TimePoint now, std::int64_t stamp, std::int64_t echo) {
  const std::int64_t own = now.time_since_epoch().count();
  if (echo <= 0 || echo > own || own > latest || !is_sane(stamp)) return;
  const std::int64_t half = (own - echo + 1) / 2;
  if (best_ && error_at(*best_, now) < half) return;
  best_ = Reading{stamp - (echo + half), half, now};
}

std::int64_t LeaderClock::error_at(const Reading& reading, TimePoint now) {
  return reading.error_ns + (now - reading.at).count() / drift_divisor;
}

std::optional<SharedClock> LeaderClock::read(TimePoint now) const {
  if (!unix_minus_stamp_ || !best_) return std::nullopt;
  return SharedClock{*unix_minus_stamp_, *unix_minus_stamp_ + best_->offset_ns, error_at(*best_, now)};
}

}  // namespace dlaunch::agent
