// Reads the pages of this node's workers every two seconds and finds the ranks that the others wait for
// (agent/model/stragglers.h). The workers notice nothing of it.
#pragma once

#include <functional>
#include <string>

#include "agent/model/job_status.h"
#include "agent/model/log_message.h"
#include "agent/model/stragglers.h"
#include "store/base/io.h"

namespace dlaunch::agent {

class StragglerWatch final : public TimerHandler {
 public:
  struct Dependencies {  // not owned; all must outlive it
    Clock& clock;
    Timers& timers;
  };
  struct Config {
    Duration window;  // a note needs so much time
    std::string pages_dir;
    std::function<JobStatus()> status;
    std::function<void(const LogMessage&)> on_log;
  };

  StragglerWatch(Dependencies dependencies, Config config);
  ~StragglerWatch() override;
  StragglerWatch(const StragglerWatch&) = delete;
  StragglerWatch& operator=(const StragglerWatch&) = delete;

  // Adds to the status how late each rank came.
  void add_to(JobStatus& status) const;
  // A sentence about the rank that costs the others most just now; empty: none does.
  [[nodiscard]] std::string sentence() const;
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }

  void on_timer(TimerId timer) override;

 private:
  void look(const JobStatus& status);

  Dependencies dependencies_;
  Config config_;
  Stragglers stragglers_;
  int round_ = -1;  // of the last look
  TimerId timer_;
};

}  // namespace dlaunch::agent
