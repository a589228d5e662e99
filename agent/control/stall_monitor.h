// For how long nothing has moved among this node's workers, by looks at their pages, and whether one of them
// asks for a message meanwhile. Pure.
//
// One that asks now and then whether its message has come may do so between two steps of its work. So asking
// is waiting only where it goes on, without a long pause, for as long as nothing may move.
//
// Only looks that came in time count: where the agent itself stood still (a suspended job, a machine that
// slept), its workers may have stood still with it, and the count begins anew.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/model/worker_record.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class StallMonitor {
 public:
  // `limit`: the job's --hang-timeout. Zero: no looks are wanted.
  explicit StallMonitor(Duration limit) : limit_(limit) {}

  [[nodiscard]] bool is_on() const { return limit_ > Duration(0); }
  // From one look to the next.
  [[nodiscard]] Duration period() const;
  // From this on the coordinator is told, with each look.
  [[nodiscard]] Duration report_after() const { return limit_ / 4; }

  // A round begins.
  void begin(TimePoint now);
  // A look, and what it saw of all workers together. Returns the quiet time.
  Duration observe(TimePoint now, const Activity& activity);
  // By that look a worker had asked for the whole limit.
  [[nodiscard]] bool saw_long_polling() const;

 private:
  void note_asks(TimePoint now, std::uint64_t asks);

  Duration limit_;
  TimePoint looked_;
  TimePoint quiet_since_;
  Activity last_;
  // Of asks without a long pause between them: the first, and the latest. None: there was none.
  std::optional<TimePoint> asking_since_;
  TimePoint asked_;
};

}  // namespace dlaunch::agent
