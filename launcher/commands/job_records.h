// What the workers of a running job on this machine have recorded.
#pragma once

#include "agent/model/job_status.h"
#include "launcher/commands/job_dump.h"

namespace dlaunch::launcher {

// All records, one right after the other: they must show one moment. Without threads and stacks.
JobDump read_records(agent::JobStatus job);

}  // namespace dlaunch::launcher
