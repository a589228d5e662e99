// From options to what is to be done. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/job.h"
#include "agent/model/log_options.h"
#include "agent/model/worker_environment.h"
#include "launcher/options/binding.h"
#include "launcher/options/options.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// What a plan needs to know of the machine it is made on.
struct MachineFacts {
  int cpus = 1;
  int accelerators = 0;  // of the kind that --nproc-per-node names; with auto: GPUs
  std::string host;
  std::string python = "python3";               // the interpreter (launcher/machine/interpreter.h)
  bool program_is_python = false;               // by what lies there, whatever it is called
  std::optional<std::string> visible_gpus;      // CUDA_VISIBLE_DEVICES where it is set
  std::optional<std::string> visible_hip_gpus;  // HIP_VISIBLE_DEVICES likewise
  Topology topology;                            // only where workers are to be bound
  std::uint64_t random = 0;                     // for the id of a job that stands alone
};

struct JobPlan {
  // Whether this node serves an endpoint; `if_ours`: one that is an address of this machine, and still free.
  // `elected`: at a free port, where others find it by the election.
  enum class Serves { no, yes, if_ours, elected };

  agent::JobSpec job;  // job.master.port is 0 where a free one is to be found
  agent::NodeSpec node;
  agent::LogOptions log;
  std::vector<Binding> bindings;  // by local rank; empty: not bound
  // What must exist for the workers to start; checked before anything is.
  std::string program;  // to be found on PATH or at a path
  std::string script;   // to be readable; empty where there is none
  // What named the first endpoint's host and port, for who has to change it: "--master-addr".
  std::string host_from;
  std::string port_from;
  std::vector<std::string> warnings;  // what was asked for of workers that this node does not have
  Serves serves = Serves::no;
  std::string etcd_key;  // where the leader's name is, with an election
  Address own;           // where this agent is reached, with an election; an empty host: to be found
};

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine);

// Which of the variables that dlaunch sets when they are unset it leaves alone.
agent::InheritedEnvironment inherited_environment(const Options& options, const EnvironmentMap& environment);

}  // namespace dlaunch::launcher
