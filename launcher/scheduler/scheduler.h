// Detects a job that a scheduler has started on its nodes: a Slurm step, PBS or LSF tasks, a
// Flux job, mpirun, a Kubernetes PyTorchJob or Indexed Job. Pure: from environment variables to settings and
// a notice; the caller gives it the functions that look outside.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/flags/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct SchedulerEnvironment {
  EnvironmentMap environment;
  std::string host;         // this machine's name
  std::string hosts_file;   // of a pod: /etc/hosts, for its full name
  std::string pbs_nodes{};  // the content of PBS_NODEFILE's file, if there is one
  std::string mpi_run{};    // identifies the mpirun if its environment does not; empty: unknown
  // Whether this machine can look up a host's name. Not set: it can.
  std::function<bool(const std::string& name)> can_look_up{};
  // What `scontrol show node` prints; called only for a name that cannot be looked up.
  std::function<Result<std::string>(const std::string& node)> show_slurm_node{};
};

struct DetectedScheduler {
  std::string name;                   // "Slurm step 42.0"; empty: no scheduler
  Settings settings;                  // none of them is in `given`
  std::string notice;                 // one line: which values were taken; empty: none
  std::vector<std::string> warnings;  // about probable mistakes
};

// Sets only what `given` (the flags, the variables, the file) leaves open. Sets nothing if `given`
// contradicts the scheduler's number of nodes, names the hosts, or has --standalone or --scheduler=none, or
// if this process is itself a worker. Rejects a job that is started such that each node would be alone.
Result<DetectedScheduler> detect_scheduler(const SchedulerEnvironment& scheduler_env, const Settings& given);

}  // namespace dlaunch::launcher
