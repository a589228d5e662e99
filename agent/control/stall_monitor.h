// For how long none of this node's workers has moved, by looks at their pages, and whether one of them polls
// for a message meanwhile. Pure.
//
// A worker that polls now and then may do so between two steps of its work. So polling counts as waiting only
// if it goes on without a long pause for the whole limit (agent/control/hang_detector.h).
//
// Only looks in time count: if the agent itself did not run (a suspended job, a machine that slept), its
// workers may not have run either, and the count begins again.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/model/worker_record.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class StallMonitor {
 public:
  // The job's; zero: none. If both are, no looks are needed.
  explicit StallMonitor(Duration hang_timeout, Duration hang_note = {});

  [[nodiscard]] bool is_on() const { return limit_ > Duration(0); }
  // The time between two looks.
  [[nodiscard]] Duration period() const;
  // A look that comes later than this after the one before shows nothing: the agent itself did not run.
  [[nodiscard]] Duration latest_look() const { return 2 * period() + std::chrono::seconds(1); }
  // After this quiet time each look is reported to the coordinator.
  [[nodiscard]] Duration report_after() const { return limit_ / 4; }

  // A round begins.
  void begin(TimePoint now);
  // A look, with the sum over all workers. Returns the quiet time.
  Duration observe(TimePoint now, const Activity& activity);
  // For how long a worker had polled at that look without a long pause; zero: none had.
  [[nodiscard]] Duration polling() const;

 private:
  void note_asks(TimePoint now, std::uint64_t asks);

  Duration limit_;  // the shorter one
  Duration longest_period_;
  TimePoint looked_;
  TimePoint quiet_since_;
  Activity last_;
  // Polls without a long pause between them: the first, and the latest. None: there was none.
  std::optional<TimePoint> asking_since_;
  TimePoint asked_;
};

}  // namespace dlaunch::agent
