// What this node reports of the arrivals of its ranks at collectives (agent/model/node_arrivals.h), by looks
// at its workers, and what it is answered: which of them the job waits for (agent/model/stragglers.h).
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "agent/model/arrivals.h"
#include "agent/model/job_status.h"
#include "agent/model/node_arrivals.h"
#include "agent/model/worker_look.h"

namespace dlaunch::agent {

class StragglerWatch {
 public:
  using Report = std::function<void(std::uint32_t round, Arrivals arrivals)>;

  explicit StragglerWatch(Report report) : report_(std::move(report)) {}

  // Reports what is new.
  void look(const JobStatus& status, const std::vector<WorkerLook>& workers);
  // The answer.
  void take(Lateness lateness) { lateness_ = std::move(lateness); }

  // Adds to the status how late each rank came, and who the straggler is, by the last answer.
  void add_to(JobStatus& status) const;

 private:
  Report report_;
  int round_ = -1;  // of the last look
  NodeArrivals arrivals_;
  Lateness lateness_;
};

}  // namespace dlaunch::agent
