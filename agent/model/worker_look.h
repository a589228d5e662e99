// A look at one worker of this node: its process, and what it has recorded. A plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/model/collective_progress.h"
#include "agent/model/worker_record.h"

namespace dlaunch::agent {

struct WorkerLook {
  int rank = 0;  // in the job
  int local_rank = 0;
  std::int64_t pid = 0;  // the recording process, or else the one that dlaunch started; 0: not started yet
  Condition condition = Condition::runs;
  std::string doing{};                   // its main thread, as in RankProgress::state
  std::uint64_t memory = 0;              // resident bytes of that process
  std::optional<WorkerRecord> record{};  // none: it has recorded nothing in this world
};

}  // namespace dlaunch::agent
