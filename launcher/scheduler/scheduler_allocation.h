// The job's settings in the environment of each scheduler. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/flags/settings.h"
#include "launcher/scheduler/scheduler.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct SchedulerAllocation {
  struct Value {
    std::string text;
    std::string from;  // the variable with this value
  };
  std::string name;  // "Slurm step 42.0"
  std::optional<Value> nnodes;
  std::optional<Value> node_rank;
  std::optional<Value> master_addr;
  std::optional<Value> master_port;
  std::optional<Value> id;
  bool master_is_slurm_node = false;  // master_addr is a NodeName, which only Slurm may know
  std::optional<Error> no_master;     // why the first host is unknown, if one is needed
  std::vector<std::string> warnings;
};

class Variables {
 public:
  using Value = SchedulerAllocation::Value;

  explicit Variables(const EnvironmentMap& map) : map_(map) {}

  // The first of `names` that is set and not empty.
  [[nodiscard]] std::optional<Value> text(const std::vector<const char*>& names) const;
  // The same, if it is a number.
  [[nodiscard]] std::optional<Value> integer(const std::vector<const char*>& names) const;
  [[nodiscard]] std::optional<std::uint64_t> number(const std::vector<const char*>& names) const;
  [[nodiscard]] bool has(const char* name) const { return text({name}).has_value(); }

 private:
  const EnvironmentMap& map_;
};

// None: not this scheduler, or it started only this process. An error: each node would be alone.
using AllocationResult = Result<std::optional<SchedulerAllocation>>;
inline AllocationResult no_allocation() { return std::optional<SchedulerAllocation>(); }

AllocationResult slurm_allocation(const Variables& env, const Settings& given);
// If this machine cannot look up the name of the first node, its address in Slurm takes the name's place.
// Sites have names for their nodes as a rule, and an answer of Slurm's controller for each node of a large
// job is dear: so it is asked only then. Without an answer the name stays, with a warning.
void find_slurm_address(const SchedulerEnvironment& scheduler_env, SchedulerAllocation& allocation);
AllocationResult pbs_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env,
                                const Settings& given);
// `host`: this machine's name.
AllocationResult lsf_allocation(const Variables& env, const std::string& host, const Settings& given);
AllocationResult flux_allocation(const Variables& env, const Settings& given);
AllocationResult open_mpi_allocation(const Variables& env);
AllocationResult mvapich_allocation(const Variables& env);
// MPICH's Hydra, and other launchers with PMI.
AllocationResult pmi_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env);
AllocationResult pytorch_job_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env);
AllocationResult indexed_job_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env,
                                        const Settings& given);

// The port of the job with this name; `step`, if there is one, distinguishes jobs in one allocation.
SchedulerAllocation::Value port_of(std::string_view job, std::string_view step, const std::string& from);

// Where this host is in the list; full and short names match each other.
std::optional<std::size_t> place_of(const std::string& host, const std::vector<std::string>& hosts);

// The error for a job of several nodes with only one dlaunch. `how`: how to start one on each, or to request
// one node.
Error alone(const std::string& job, const std::string& nodes, const std::string& how);
// The error for one dlaunch per worker. `how`: how to start one per node.
Error several_here(const std::string& name, const std::string& how);

inline constexpr const char* name_the_first_host = "name the first host with --rdzv-endpoint=HOST:PORT";

}  // namespace dlaunch::launcher
