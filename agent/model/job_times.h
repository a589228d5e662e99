// Where the time of a node's part of a job went, and what each restart cost. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/rank_times.h"
#include "agent/model/time_sums.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// The parts of a restart, one after the other, for one rank on average.
struct RestartTimes {
  Duration detecting{};  // the failure lasted before it was noticed: a hang, or a node that was silent. The
                         // sums have it as what the ranks did meanwhile
  Duration stopping{};   // from then, or the decision to stop, until all workers are gone
  Duration deciding{};   // until the next workers are started
  Duration starting{};   // until they call init_process_group
  Duration first{};      // until they are in their first operation. Both are zero if they record nothing

  bool operator==(const RestartTimes&) const = default;
};

class JobTimes {
 public:
  static constexpr std::size_t most_restarts = 32;  // later ones are only in the sums

  // `ranks`: of this node. Its time begins now.
  JobTimes(int ranks, TimePoint now) : stepped_(now), began_(now) { sums_.ranks = ranks; }

  // The time since the last step belongs to the phase in which that step found the node. REQUIRES: `seen` is
  // of a look at this moment.
  void step(TimePoint now, const JobStatus& status, const SeenOfRound& seen);

  [[nodiscard]] const TimeSums& sums() const { return sums_; }
  [[nodiscard]] const std::vector<RestartTimes>& restarts() const { return restarts_; }

 private:
  enum class Phase : std::uint8_t { assembling, running, stopping, deciding, done };

  [[nodiscard]] Phase phase_of(const JobStatus& status) const;
  void add_running(Duration passed, const SeenOfRound& seen);
  void begin_round();

  TimeSums sums_;
  TimePoint stepped_;
  TimePoint began_;
  Phase phase_ = Phase::assembling;
  int round_ = -1;                       // of the last step
  std::map<int, RankTimes> before_;      // the last parts of each rank that ran; used for its last moments
  RestartTimes open_;                    // since the last round stopped
  std::size_t restart_ = most_restarts;  // which of restarts_ began this round; most_restarts: none
  bool has_looked_ = false;              // at the workers of this round
  std::vector<RestartTimes> restarts_;
};

}  // namespace dlaunch::agent
