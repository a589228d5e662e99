// From options to what is to be done: pure but for what is asked of `machine`.
#pragma once

#include "agent/job.h"
#include "launcher/options.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// What a plan needs to know of the machine it is made on.
struct MachineFacts {
  int cpus = 1;
  int gpus = 0;
  std::string host;
  std::string python = "python3";  // PYTHON_EXEC where it is set
};

struct JobPlan {
  agent::JobSpec job;  // job.master.port is 0 where a free one is to be found
  agent::NodeSpec node;
  // What must exist for the workers to start; checked before anything is.
  std::string program;  // to be found on PATH or at a path
  std::string script;   // to be readable; empty where there is none
  bool hosts_store = false;
};

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine);

}  // namespace dlaunch::launcher
