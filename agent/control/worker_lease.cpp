#include "agent/control/worker_lease.h"

#include <algorithm>

namespace dlaunch::agent {

WorkerLease::WorkerLease(Duration node_timeout, TimePoint now)
    : rules_(node_timeout),
      node_timeout_(node_timeout),
      leader_gone_by_(exists() ? rules_.gone_with_leader(now) : now),
      others_gone_by_(leader_gone_by_) {}

bool WorkerLease::take(TimePoint now, const Grant& grant, bool workers_run) {
  const TimePoint from{Duration(grant.echo)};
  if (!exists() || from > now) return false;
  // Workers that run after the fence belong to a world that is over; this grant is for the next one.
  if (workers_run && fence_at_) return false;
  granted_until_ = from + std::clamp(grant.lease, Duration(0), node_timeout_);
  return true;
}

void WorkerLease::begin_round() {
  fence_at_.reset();
  over_ = false;
}

void WorkerLease::on_leader_lost(TimePoint now, bool silent, TimePoint heard, bool workers_run) {
  if (!exists()) return;
  // A leader whose connection was closed has ended; one that fell silent may go on to lead others.
  leader_gone_by_ = silent ? rules_.gone_with_leader(heard) : rules_.gone_if_closed(now);
  others_gone_by_ = silent ? leader_gone_by_ : rules_.gone_if_silent(now);
  if (workers_run) fence_at_ = granted_until_;
}

void WorkerLease::on_leader_stepped_down(TimePoint now) {
  leader_gone_by_ = now;
  others_gone_by_ = exists() ? rules_.gone_if_silent(now) : now;
}

bool WorkerLease::take_fence(TimePoint now) {
  if (!fence_at_ || now < *fence_at_) return false;
  fence_at_.reset();
  return true;
}

Duration WorkerLease::left_on_leader(TimePoint now) const {
  return std::max(Duration(0), leader_gone_by_ - now);
}

Duration WorkerLease::left_on_others(TimePoint now) const {
  return std::max(Duration(0), others_gone_by_ - now);
}

}  // namespace dlaunch::agent
