// The Runner's interface to the workers' pages. Production: WorkerPages; tests: tests/sim.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "agent/model/collective_progress.h"
#include "agent/model/job_status.h"
#include "agent/model/spawner.h"

namespace dlaunch::agent {

// A worker of this node.
struct WorkerHere {
  std::uint32_t local_rank = 0;
  int rank = 0;          // in the job
  std::int64_t pid = 0;  // 0: it has not started
};

class WorkerRecords {
 public:
  virtual ~WorkerRecords() = default;
  // Called before this worker is started: removes its predecessor's page. The worker makes its own.
  virtual void prepare(ProcKey key) = 0;
  // The sum over these workers; those without a record do not count.
  virtual Activity activity(std::uint32_t round, int slots) = 0;
  // What this worker, which has ended, left on its page. Empty if it used another world than the job's.
  virtual ExitRecord exit_record(ProcKey key, int world_size) = 0;
  // One of the next group_progress() is to have this worker's stack, if it can be had.
  virtual void request_stack(std::uint32_t round, std::uint32_t local_rank, TimePoint now) = 0;
  // These workers' progress in their groups, and those that have none yet.
  virtual std::vector<GroupProgress> group_progress(std::uint32_t round, std::span<const WorkerHere> workers,
                                                    int world_size, TimePoint now) = 0;
  // This round is over, and has not succeeded: keeps its pages where they outlive the job, if there is such a
  // place. `status` has the round's workers.
  virtual void keep(const JobStatus& status) = 0;
};

}  // namespace dlaunch::agent
