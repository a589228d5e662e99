#include "agent/model/job_times.h"

#include <algorithm>

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

void JobTimes::step(TimePoint now, const JobStatus& status, const std::map<int, RankTimes>& latest) {
  const Duration passed = now - stepped_;
  stepped_ = now;
  const Duration of_all = passed * ranks_;
  switch (phase_) {
    case Phase::assembling:
      assembling_ += of_all;
      break;
    case Phase::running:
      add_running(passed, latest);
      break;
    case Phase::stopping:
      stopping_ += of_all;
      open_.stopping += passed;
      break;
    case Phase::deciding:
      deciding_ += of_all;
      open_.deciding += passed;
      break;
    case Phase::done:
      done_ += of_all;
      break;
  }
  const Phase next = phase_of(status);
  const bool is_restart = phase_ == Phase::stopping || phase_ == Phase::deciding;
  if (next == Phase::running && phase_ != Phase::running) {
    before_.clear();
    has_looked_ = false;
    restart_ = is_restart && restarts_.size() < most_restarts ? restarts_.size() : most_restarts;
    if (restart_ < most_restarts) restarts_.push_back(open_);
    open_ = {};
  }
  phase_ = next;
}

void JobTimes::add_running(Duration passed, const std::map<int, RankTimes>& latest) {
  RankTimes added;
  int counted = 0;
  for (const auto& [rank, parts] : latest) {
    if (counted == ranks_) break;
    added += scaled(parts, passed);
    ++counted;
  }
  // These have ended since the last step.
  for (const auto& [rank, parts] : before_) {
    if (latest.contains(rank) || counted == ranks_) continue;
    added += scaled(parts, passed);
    ++counted;
  }
  // So have these, before anything was seen of them.
  const Duration rest = passed * (ranks_ - counted);
  if (has_looked_) {
    ended_ += rest;
  } else {
    added[Spent::starting] += rest;
  }
  has_looked_ = true;
  before_ = latest;
  running_ += added;
  if (restart_ < restarts_.size())
    restarts_[restart_].starting += added[Spent::starting] / std::max(1, ranks_);
}

Duration JobTimes::total() const {
  return running_.total() + assembling_ + ended_ + stopping_ + deciding_ + done_;
}

double JobTimes::goodput() const {
  const Duration good = running_[Spent::computing] + running_[Spent::operation] + running_[Spent::unrecorded];
  return total() > Duration(0) ? to_seconds(good) / to_seconds(total()) : 0;
}

}  // namespace dlaunch::agent
