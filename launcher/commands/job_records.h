// What the workers of a job on this machine have recorded.
#pragma once

#include "agent/model/job_status.h"
#include "launcher/commands/job_dump.h"

namespace dlaunch::launcher {

// All records, one right after the other: they must show one moment. Without threads and stacks.
JobDump read_records(agent::JobStatus job);
// Of a round that has ended (agent/observe/kept_rounds.h).
JobDump read_kept_records(agent::JobStatus round);

}  // namespace dlaunch::launcher
