#include "agent/model/job_times.h"

#include <algorithm>
#include <utility>

namespace dlaunch::agent {
namespace {

// The same parts of another time; they add up to it.
RankTimes scaled(const RankTimes& parts, Duration whole) {
  RankTimes out;
  const double total = to_seconds(parts.total());
  Duration rest = whole;
  for (std::size_t i = 0; i < spent_kinds && total > 0; ++i) {
    const auto kind = static_cast<Spent>(i);
    const double share = to_seconds(parts[kind]) / total;
    out[kind] = std::min(rest, std::chrono::duration_cast<Duration>(share * whole));
    rest -= out[kind];
  }
  out[parts.longest()] += rest;
  return out;
}

}  // namespace

JobTimes::Phase JobTimes::phase_of(const JobStatus& status) const {
  if (status.state == "running") return Phase::running;
  if (status.state == "stopping") return Phase::stopping;
  if (status.state == "done" || phase_ == Phase::done) return Phase::done;
  return phase_ == Phase::assembling ? Phase::assembling : Phase::deciding;
}

void JobTimes::step(TimePoint now, const JobStatus& status, const SeenOfRound& seen) {
  const Duration passed = now - stepped_;
  stepped_ = now;
  sums_.wall = now - began_;
  const Duration of_all = passed * sums_.ranks;
  const bool is_another_round = std::exchange(round_, status.round) != status.round;
  switch (phase_) {
    case Phase::assembling:
      sums_[TimeKind::assembling] += of_all;
      break;
    case Phase::running:
      add_running(passed, is_another_round ? SeenOfRound{} : seen);
      break;
    case Phase::stopping:
      sums_[TimeKind::stopping] += of_all;
      open_.stopping += passed;
      break;
    case Phase::deciding:
      sums_[TimeKind::deciding] += of_all;
      open_.deciding += passed;
      break;
    case Phase::done:
      sums_[TimeKind::done] += of_all;
      break;
  }
  const Phase next = phase_of(status);
  // If all workers ended by themselves, the next round may begin before anything else was seen.
  if (phase_ == Phase::running && (next != Phase::running || is_another_round)) {
    open_.detecting = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(status.unnoticed_s));
    phase_ = Phase::stopping;
  }
  if (next == Phase::running && phase_ != Phase::running) begin_round();
  phase_ = next;
}

void JobTimes::begin_round() {
  const bool is_restart = phase_ == Phase::stopping || phase_ == Phase::deciding;
  before_.clear();
  has_looked_ = false;
  restart_ = is_restart && restarts_.size() < most_restarts ? restarts_.size() : most_restarts;
  if (restart_ < most_restarts) restarts_.push_back(open_);
  open_ = {};
}

void JobTimes::add_running(Duration passed, const SeenOfRound& seen) {
  RankTimes added;
  int counted = 0;
  for (const auto& [rank, parts] : seen.latest) {
    if (counted == sums_.ranks) break;
    added += scaled(parts, passed);
    ++counted;
  }
  // These have ended since the last step.
  for (const auto& [rank, parts] : before_) {
    if (seen.latest.contains(rank) || counted == sums_.ranks) continue;
    added += scaled(parts, passed);
    ++counted;
  }
  // So have these, before anything was seen of them.
  const Duration rest = passed * (sums_.ranks - counted);
  if (has_looked_) {
    sums_[TimeKind::ended] += rest;
  } else {
    added[Spent::starting] += rest;
  }
  has_looked_ = true;
  before_ = seen.latest;
  for (const int rank : seen.ended) before_.erase(rank);
  sums_.add(added);
  // Only now is it known that this was their start.
  const Duration start = std::min(seen.recognized_start, sums_[TimeKind::unrecorded]);
  sums_[TimeKind::unrecorded] -= start;
  sums_[TimeKind::starting] += start;
  if (restart_ < restarts_.size()) {
    restarts_[restart_].starting = seen.mean_start;
    restarts_[restart_].first = seen.mean_until_first;
  }
}

}  // namespace dlaunch::agent
