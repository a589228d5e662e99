// Where the time of a node's part of a job went, in rank-seconds: its parts add up to the number of ranks
// times the time since the start. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/rank_times.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class JobTimes {
 public:
  // Between two rounds, for one rank on average.
  struct Restart {
    Duration stopping{};  // from the first failure, or the decision to stop, until all workers are gone
    Duration deciding{};  // until the next workers are started
    Duration starting{};  // until they are in their first operation; zero if they record none
  };
  static constexpr std::size_t most_restarts = 32;  // later ones are only in the sums

  // `ranks`: of this node. Its time begins now.
  JobTimes(int ranks, TimePoint now) : ranks_(ranks), began_(now), stepped_(now) {}

  // The time since the last step belongs to the phase in which that step found the node. REQUIRES: `latest`
  // is TimesOfRanks::latest() of a look at this moment.
  void step(TimePoint now, const JobStatus& status, const std::map<int, RankTimes>& latest);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Duration wall() const { return stepped_ - began_; }
  [[nodiscard]] const RankTimes& running() const { return running_; }
  [[nodiscard]] Duration assembling() const { return assembling_; }  // before the first round
  [[nodiscard]] Duration ended() const { return ended_; }  // of ranks that had returned while others ran
  [[nodiscard]] Duration stopping() const { return stopping_; }
  [[nodiscard]] Duration deciding() const { return deciding_; }
  // After all have returned 0, until the job's end.
  [[nodiscard]] Duration done() const { return done_; }
  [[nodiscard]] Duration total() const;
  // The share of the time in which ranks computed or were in operations, or ran without a record.
  [[nodiscard]] double goodput() const;
  [[nodiscard]] const std::vector<Restart>& restarts() const { return restarts_; }

 private:
  enum class Phase : std::uint8_t { assembling, running, stopping, deciding, done };

  [[nodiscard]] Phase phase_of(const JobStatus& status) const;
  void add_running(Duration passed, const std::map<int, RankTimes>& latest);

  int ranks_;
  TimePoint began_;
  TimePoint stepped_;
  Phase phase_ = Phase::assembling;
  std::map<int, RankTimes> before_;  // the last parts of each rank that ran; used for its last moments
  RankTimes running_;
  Duration assembling_{};
  Duration ended_{};
  Duration stopping_{};
  Duration deciding_{};
  Duration done_{};
  Restart open_;                         // since the last round stopped
  std::size_t restart_ = most_restarts;  // which of restarts_ began this round; most_restarts: none
  bool has_looked_ = false;              // at the workers of this round
  std::vector<Restart> restarts_;
};

}  // namespace dlaunch::agent
