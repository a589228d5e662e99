// The failures of a round as the nodes report them, and which of them ends it: the first that happened, not
// the first that was reported (agent/model/root_cause.h). Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "agent/control/hang_detector.h"
#include "agent/control/membership.h"
#include "agent/model/job.h"
#include "agent/model/root_cause.h"

namespace dlaunch::agent {

class FailureCollector {
 public:
  // The long texts of so many failures are kept, since each may turn out to be the cause.
  static constexpr std::size_t most_in_full = 64;
  static constexpr std::size_t most_suspects = 64;

  // A round begins.
  void begin() { *this = {}; }

  // A worker that obeyed the stop, but wrote something like an error before. REQUIRES: is_suspect(failure).
  void add_suspect(const Failure& failure);
  // False: a failure of this rank was seen before in this round.
  bool add_rank(int rank) { return ranks_.insert(rank).second; }
  void record(TimePoint when, const Failure& failure);
  // The last recorded failure ends the job, whatever the others are.
  void end_job_by_last() { final_ = failures_.size() - 1; }

  [[nodiscard]] bool empty() const { return failures_.empty(); }
  // REQUIRES: !empty().
  [[nodiscard]] const Failure& first() const { return failures_.front().failure; }
  [[nodiscard]] bool ends_job() const { return final_.has_value(); }
  // The blamed rank may still run, and end by itself. If it is unknown (-1), any running rank may be meant.
  [[nodiscard]] bool may_still_end(int blamed_rank, const Membership& here, const World& world) const;

  // The other workers are stopped at `until`, unless the blamed rank ends before.
  void await_blamed_rank(TimePoint until);
  void stop_awaiting() { blamed_until_.reset(); }
  [[nodiscard]] std::optional<TimePoint> awaits_until() const { return blamed_until_; }

  // REQUIRES, of both: !empty(). A rank that was blamed, and has not failed itself, may be the cause.
  const TimedFailure& find_cause(const HangDetector& workers, const World& world);
  // How the job failed. It forgets the failures.
  Outcome take_outcome(const HangDetector& workers, const World& world);

 private:
  // If workers report that they called different operations: the failure that stands for it. It says which.
  std::optional<std::size_t> explain_mismatch(std::size_t cause);
  std::size_t index_of_cause(const HangDetector& workers, const World& world);

  std::vector<TimedFailure> failures_;  // in the order of the reports
  std::vector<Failure> suspects_;
  std::set<int> ranks_;
  std::optional<std::size_t> final_;  // in failures_
  std::optional<TimePoint> blamed_until_;
};

}  // namespace dlaunch::agent
