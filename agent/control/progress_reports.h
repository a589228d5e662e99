// When a member looks at its workers, and what it reports of them to the coordinator: with each look while
// nothing moves (--hang-timeout, --hang-note), once when it moves again, and once when the round is stopped.
// Pure.
#pragma once

#include <optional>

#include "agent/control/idle_monitor.h"
#include "agent/control/messages.h"
#include "agent/control/stall_monitor.h"
#include "agent/model/worker_usage.h"

namespace dlaunch::agent {

// What the workers' pages and processes show.
struct WorkersSeen {
  Activity activity;
  std::optional<std::vector<GroupProgress>> group_progress;  // only after a full look
  std::optional<WorkerUsage> usage{};                        // none: it is not known
};

class ProgressReports {
 public:
  explicit ProgressReports(Duration hang_timeout, Duration hang_note = {})
      : monitor_(hang_timeout, hang_note) {}

  void begin_round(TimePoint now);
  // The round is over: no look is due.
  void end_round() { look_at_.reset(); }
  [[nodiscard]] std::optional<TimePoint> look_at() const { return look_at_; }
  // A look is due; true: in full. None: no look is due.
  std::optional<bool> take_look(TimePoint now);
  // The round is being stopped. True once a round: take a last full look.
  bool take_last_look();

  // What to report after a look; none: nothing.
  std::optional<Progress> take(TimePoint now, std::uint32_t round, const WorkersSeen& seen);

 private:
  [[nodiscard]] Duration idle(TimePoint now, const WorkersSeen& seen);

  StallMonitor monitor_;
  IdleMonitor idle_monitor_;
  std::optional<TimePoint> look_at_;
  Duration quiet_{};              // by the last look
  bool stall_reported_ = false;   // the coordinator believes that nothing moves here
  bool last_look_taken_ = false;  // in this round
};

}  // namespace dlaunch::agent
