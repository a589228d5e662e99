// Flux: a job has its tasks' numbers in their environment, but not the names of its hosts.
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/scheduler_allocation.h"

namespace dlaunch::launcher {

namespace {

// "ƒ2oLkTLb" and "f2oLkTLb" are the same number for Flux.
std::string in_ascii(std::string id) {
  constexpr std::string_view hooked_f = "\u0192";
  return id.starts_with(hooked_f) ? "f" + id.substr(hooked_f.size()) : id;
}

}  // namespace

AllocationResult flux_allocation(const Variables& env, const Settings& given) {
  const auto job = env.text({"FLUX_JOB_ID"});
  const auto tasks = env.integer({"FLUX_JOB_SIZE"});
  const auto rank = env.integer({"FLUX_TASK_RANK"});
  if (!job || !tasks || !rank) return no_allocation();
  const std::string id = in_ascii(job->text);
  SchedulerAllocation allocation;
  allocation.name = "Flux job " + id;
  allocation.nnodes = env.integer({"FLUX_JOB_NNODES", "FLUX_JOB_SIZE"});
  if (tasks->text != allocation.nnodes->text) {
    if (find(given, "nnodes") != nullptr) return no_allocation();
    return several_here(allocation.name, "flux run --tasks-per-node=1");
  }
  allocation.node_rank = rank;
  allocation.id = SchedulerAllocation::Value{"flux-" + id, "FLUX_JOB_ID"};
  if (tasks->text != "1") {
    allocation.master_port = port_of(id, "", "FLUX_JOB_ID");
    allocation.no_master =
        usage(allocation.name + " does not say on which host its first task is", "", name_the_first_host);
  }
  return std::optional(std::move(allocation));
}

}  // namespace dlaunch::launcher
