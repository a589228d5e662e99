#include "launcher/scheduler/scheduler.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/scheduler_allocation.h"

namespace dlaunch::launcher {
namespace {

// The innermost first: mpirun inside a job of a scheduler decides what runs where.
AllocationResult allocation_of(const SchedulerEnvironment& scheduler_env, const Settings& given) {
  const Variables env(scheduler_env.environment);
  if (env.has("OMPI_COMM_WORLD_SIZE")) return open_mpi_allocation(env);
  if (env.has("MV2_COMM_WORLD_SIZE")) return mvapich_allocation(env);
  if (env.has("PMI_SIZE") && env.has("MPI_LOCALNRANKS")) return pmi_allocation(env, scheduler_env);
  // Flux's own processes may be a Slurm step, whose variables its jobs inherit.
  if (auto allocation = flux_allocation(env, given); !allocation || *allocation) return allocation;
  if (auto allocation = slurm_allocation(env, given); !allocation || *allocation) return allocation;
  if (env.has("PMI_SIZE")) return pmi_allocation(env, scheduler_env);
  if (auto allocation = pbs_allocation(env, scheduler_env, given); !allocation || *allocation)
    return allocation;
  if (auto allocation = lsf_allocation(env, scheduler_env.host, given); !allocation || *allocation)
    return allocation;
  if (auto allocation = pytorch_job_allocation(env, scheduler_env); !allocation || *allocation)
    return allocation;
  return indexed_job_allocation(env, scheduler_env, given);
}

bool is_off(const SchedulerEnvironment& scheduler_env, const Settings& given) {
  const Setting* standalone = find(given, "standalone");
  const Setting* scheduler = find(given, "scheduler");
  const bool is_worker = scheduler_env.environment.contains("TORCHELASTIC_RUN_ID");
  const bool hosts_are_named = find(given, "hosts") || find(given, "hostfile");
  return is_worker || hosts_are_named || (standalone && standalone->value == "true") ||
         (scheduler && scheduler->value == "none");
}

// The first host is the endpoint, also if others could be it: all in a network with its own translation of
// addresses, or several nodes of a scheduler on one machine.
std::optional<SchedulerAllocation::Value> is_first(const SchedulerAllocation& found) {
  if (!found.node_rank) return std::nullopt;
  return SchedulerAllocation::Value{found.node_rank->text == "0" ? "is_host=true" : "is_host=false",
                                    found.node_rank->from};
}

}  // namespace

Result<DetectedScheduler> detect_scheduler(const SchedulerEnvironment& scheduler_env, const Settings& given) {
  DetectedScheduler out;
  if (is_off(scheduler_env, given)) return out;
  auto allocation = allocation_of(scheduler_env, given);
  if (!allocation) return std::move(allocation).error();
  if (!*allocation) return out;
  SchedulerAllocation& found = **allocation;
  out.name = found.name;

  const bool endpoint_given = find(given, "rdzv-endpoint") != nullptr;
  const Setting* nnodes = find(given, "nnodes");
  const Setting* spares = find(given, "spares");
  const int beyond = spares ? std::atoi(spares->value.c_str()) : 0;
  // "2", or the larger number of "1:2".
  const int meant =
      nnodes ? std::atoi(nnodes->value.substr(nnodes->value.find(':') + 1).c_str()) + beyond : 0;
  if (nnodes && found.nnodes && std::to_string(meant) != found.nnodes->text) {
    if (meant > 1 && !endpoint_given && !find(given, "master-addr")) {
      out.warnings.push_back(found.name + " has " + found.nnodes->text + " nodes, but " +
                             std::to_string(meant) + " were requested, so its settings are ignored; " +
                             name_the_first_host);
    }
    return out;
  }
  if (found.no_master && !endpoint_given && !find(given, "master-addr")) return std::move(*found.no_master);
  if (endpoint_given) {
    found.master_addr.reset();
    found.master_port.reset();
  }
  if (!find(given, "master-addr")) find_slurm_address(scheduler_env, found);
  std::vector<std::string> taken;
  const auto take = [&](const char* flag, const std::optional<SchedulerAllocation::Value>& value,
                        const char* label) {
    if (!value || find(given, flag)) return;
    out.settings.emplace(flag, Setting{value->text, Origin::scheduler, value->from});
    if (label) taken.push_back(label + value->text);
  };
  take("nnodes", found.nnodes, "nodes ");
  if (beyond == 0) take("node-rank", found.node_rank, "node rank ");  // a waiting spare has none
  take("master-addr", found.master_addr, "master ");
  take("master-port", found.master_port, "port ");
  take("rdzv-id", found.id, "id ");
  if (beyond > 0 && found.master_addr && !find(given, "master-addr"))
    take("rdzv-conf", is_first(found), nullptr);
  if (!taken.empty()) out.notice = found.name + ": " + join(taken, ", ");
  out.warnings = std::move(found.warnings);
  return out;
}

}  // namespace dlaunch::launcher
