// The workers' pages, as the Runner sees them. Production: WorkerPages; tests: tests/sim.
#pragma once

#include <cstdint>
#include <vector>

#include "agent/model/collective_progress.h"
#include "agent/model/spawner.h"

namespace dlaunch::agent {

class WorkerRecords {
 public:
  virtual ~WorkerRecords() = default;
  // Before this worker is started: removes the page of the one before it. The worker makes its own.
  virtual void prepare(ProcKey key) = 0;
  // Of all these workers together; those without a record do not count.
  virtual Activity activity(std::uint32_t round, int slots) = 0;
  // What this worker, which has ended, left on its page. Nothing where it took another world than the job's
  // for its own.
  virtual ExitRecord exit_record(ProcKey key, int world_size) = 0;
  // Where they stand in their groups.
  virtual std::vector<GroupProgress> group_progress(std::uint32_t round, int slots, int world_size,
                                                    TimePoint now) = 0;
};

}  // namespace dlaunch::agent
