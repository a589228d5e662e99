// Finds the ranks that the others wait for (agent/model/stragglers.h), by looks at this node's workers, and
// notes them.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/log_message.h"
#include "agent/model/stragglers.h"
#include "agent/model/worker_look.h"

namespace dlaunch::agent {

class StragglerWatch {
 public:
  // `window`: a note needs so much time.
  StragglerWatch(Duration window, std::function<void(const LogMessage&)> on_log)
      : stragglers_(window), on_log_(std::move(on_log)) {}

  [[nodiscard]] Duration period() const { return stragglers_.period(); }
  void look(TimePoint now, const JobStatus& status, const std::vector<WorkerLook>& workers);

  // Adds to the status how late each rank came.
  void add_to(JobStatus& status) const;
  // A sentence about the rank that costs the others most just now; empty: none does.
  [[nodiscard]] std::string sentence(TimePoint now) const;
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }

 private:
  Stragglers stragglers_;
  std::function<void(const LogMessage&)> on_log_;
  int round_ = -1;  // of the last look
};

}  // namespace dlaunch::agent
