// Looks at this node's workers every two seconds: their processes and their pages. The workers notice nothing
// of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/worker_look.h"
#include "store/base/io.h"

namespace dlaunch::agent {

// A look at each worker of the status, now. `pages_dir`: of their pages; empty: they have none.
std::vector<WorkerLook> look_at_workers(const JobStatus& status, const std::string& pages_dir);

class WorkerLooks final : public TimerHandler {
 public:
  struct Dependencies {  // not owned; all must outlive it
    Clock& clock;
    Timers& timers;
  };
  struct Config {
    Duration period;
    std::string pages_dir;  // empty: the workers have no pages
    std::function<JobStatus()> status;
    std::function<void(TimePoint, const JobStatus&, const std::vector<WorkerLook>&)> on_look;
  };

  WorkerLooks(Dependencies dependencies, Config config);
  ~WorkerLooks() override;
  WorkerLooks(const WorkerLooks&) = delete;
  WorkerLooks& operator=(const WorkerLooks&) = delete;

  // A look now, besides those of the timer; at the workers of this status.
  void look() { look(config_.status()); }
  void look(const JobStatus& status);
  [[nodiscard]] Duration period() const { return config_.period; }

  void on_timer(TimerId timer) override;

 private:
  Dependencies dependencies_;
  Config config_;
  TimerId timer_;
};

}  // namespace dlaunch::agent
