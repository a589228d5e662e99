// For how long this node's workers have been idle: none of them has used the CPU or printed anything. Pure.
//
// It is what can be seen of a worker that records nothing. One that waits for another rank sleeps, or polls
// now and then; but so does one that waits for a disk, a queue, or a user. So an idle job only may hang.
//
// A worker may use a share of one CPU, since its threads may poll, and more at once if it has used less
// before: it may have answered whoever asked it where it is. This is a token bucket.
#pragma once

#include <vector>

#include "agent/model/worker_usage.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class IdleMonitor {
 public:
  static constexpr int percent = 2;
  static constexpr Duration most_at_once = std::chrono::milliseconds(100);

  // A round begins.
  void begin(TimePoint now);
  // A look. Returns the idle time. If it comes later than `latest` after the one before, the agent itself did
  // not run, and the count begins again.
  Duration observe(TimePoint now, const WorkerUsage& usage, Duration latest);

 private:
  [[nodiscard]] bool is_used(const WorkerUsage& usage, Duration passed);

  TimePoint looked_;
  TimePoint idle_since_;
  WorkerUsage last_;
  std::vector<Duration> allowed_;  // of each worker, now
};

}  // namespace dlaunch::agent
