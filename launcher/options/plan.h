// From Options to the plan of a job on this node. Pure.
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

// The MPI that the program is linked with, by its way of finding the other ranks: mpich speaks PMI-1, as
// Intel MPI, MVAPICH and others do; open_mpi speaks PMIx.
enum class MpiLibrary : std::uint8_t { none, mpich, open_mpi };

// What a plan needs to know of the machine it is made on.
struct MachineFacts {
  int cpus = 1;
  int accelerators = 0;  // of the kind that --nproc-per-node names; with auto: GPUs
  std::string host;
  std::string pod;                              // of a Kubernetes pod: its full name
  std::string python = "python3";               // the interpreter (launcher/machine/interpreter.h)
  bool program_is_python = false;               // by its content, whatever its name
  std::string python_package;                   // the folder of the build tree's Python package; empty: none
  MpiLibrary mpi_library = MpiLibrary::none;    // of the program
  std::string pmix_program;                     // dlaunch-pmix (agent/pmix); empty: it is not there
  bool has_mpi_world = false;                   // an mpirun or srun with PMIx has started this dlaunch
  std::optional<std::string> visible_gpus;      // CUDA_VISIBLE_DEVICES, if it is set
  std::optional<std::string> visible_hip_gpus;  // HIP_VISIBLE_DEVICES, if it is set
  Topology topology;                            // only if workers are bound
  std::uint64_t random = 0;                     // for the id of a standalone job
};

struct JobPlan {
  // Whether this node serves an endpoint; `if_ours`: one that is an address of this machine, and still free.
  // `elected`: at a free port, which other nodes learn from the election.
  enum class Serves { no, yes, if_ours, elected };

  agent::JobSpec job;  // job.master.port 0: a free one is to be found
  agent::NodeSpec node;
  agent::LogOptions log;
  std::vector<Binding> bindings;  // by local rank; empty: not bound
  // What the workers need to start; checked before anything is created.
  std::string program;  // a path, or a name that is found on PATH
  std::string script;   // a readable file; empty: none
  std::string pod;      // of a Kubernetes pod: its full name
  // The settings that named the first endpoint's host and port, for hints: "--master-addr".
  std::string host_from;
  std::string port_from;
  std::string rank_from;  // the same of this node's rank; empty: --hosts has chosen it
  std::vector<std::string>
      warnings;  // settings for workers that this node does not have; an MPI without a world
  Serves serves = Serves::no;
  std::string etcd_key;  // with an election: the key that holds the leader's name
  Address own;           // with an election: where this agent is reached; an empty host: to be found
};

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine);

// Which of the variables that have a default of dlaunch stay as they are.
agent::InheritedEnvironment inherited_environment(const Options& options, const EnvironmentMap& environment);

}  // namespace dlaunch::launcher
