// What the environment says about a job that somebody else has spread over the nodes: a Slurm step, PBS's
// tasks, mpirun, a Kubernetes PyTorchJob or Indexed Job. Pure: from variables to settings and a sentence.
#pragma once

#include <string>
#include <vector>

#include "launcher/flags/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct SchedulerEnvironment {
  EnvironmentMap environment;
  std::string host;         // this machine's name
  std::string hosts_file;   // /etc/hosts, for the full name of a pod
  std::string pbs_nodes{};  // what stands in PBS_NODEFILE's file, where there is one
  std::string mpi_run{};    // names the run of an mpirun whose environment does not; empty: nothing does
};

struct DetectedScheduler {
  std::string name;                   // "Slurm step 42.0"; empty: nobody
  Settings settings;                  // none of them is in `given`
  std::string notice;                 // one line: what was taken from where; empty: nothing was
  std::vector<std::string> warnings;  // what is probably not meant
};

// Takes only what `given` (the flags, the variables, the file) leaves open, and nothing where it contradicts
// the scheduler's number of nodes, names the hosts, asks for --standalone or --scheduler=none, or where this
// process is itself a worker. A job that is started such that each node would be alone is refused.
Result<DetectedScheduler> detect_scheduler(const SchedulerEnvironment& scheduler_env, const Settings& given);

}  // namespace dlaunch::launcher
