// Slurm: a step has one dlaunch on each of its nodes; a batch script runs on the first node only.
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/host_list.h"
#include "launcher/scheduler/scheduler_allocation.h"
#include "launcher/scheduler/slurm_node.h"

namespace dlaunch::launcher {
namespace {

void take_first_host(const Variables& env, SchedulerAllocation& allocation) {
  const auto list = env.text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list) {
    allocation.no_master = usage(allocation.name + " does not say which nodes it has",
                                 "SLURM_STEP_NODELIST is not set", name_the_first_host);
    return;
  }
  auto hosts = expand_hosts(list->text);
  if (hosts) {
    allocation.master_addr = SchedulerAllocation::Value{hosts->front(), list->from};
    allocation.master_is_slurm_node = true;
  } else {
    allocation.no_master =
        std::move(hosts).error().with_where("in " + list->from).with_hint(name_the_first_host);
  }
}

Result<std::string> address_in_slurm(const SchedulerEnvironment& scheduler_env, const std::string& node) {
  auto printed = scheduler_env.show_slurm_node(node);
  return printed ? slurm_node_address(*printed, node) : std::move(printed);
}

}  // namespace

void find_slurm_address(const SchedulerEnvironment& scheduler_env, SchedulerAllocation& allocation) {
  if (!allocation.master_addr || !allocation.master_is_slurm_node || !scheduler_env.can_look_up) return;
  SchedulerAllocation::Value& first = *allocation.master_addr;
  if (scheduler_env.can_look_up(first.text)) return;
  auto address = address_in_slurm(scheduler_env, first.text);
  if (address) {
    first = {std::move(*address), "NodeAddr of " + first.text + " in Slurm"};
  } else {
    allocation.warnings.push_back(
        "the first node, " + first.text + " (" + first.from +
        "), has no address here: DNS and /etc/hosts do not know it, and Slurm gives "
        "none (" +
        address.error().message() + "); " + name_the_first_host);
  }
}

AllocationResult slurm_allocation(const Variables& env, const Settings& given) {
  const bool nnodes_given = find(given, "nnodes") != nullptr;
  const auto job = env.text({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return no_allocation();
  const bool in_step = env.has("SLURM_STEP_ID") && env.has("SLURM_NODEID");
  const auto job_nodes = env.number({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}).value_or(1);
  if (!in_step) {
    if (job_nodes > 1 && !nnodes_given) {
      return alone(
          "Slurm job " + job->text, std::to_string(job_nodes),
          "start it with srun --ntasks-per-node=1 dlaunch ..., or give --nnodes=1 to use only this node");
    }
    return no_allocation();
  }

  const std::string step = env.text({"SLURM_STEP_ID"})->text;
  SchedulerAllocation allocation;
  allocation.name = "Slurm step " + job->text + "." + step;
  const auto tasks = env.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1);
  const auto nodes = env.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}).value_or(1);
  if (tasks > nodes && !nnodes_given) {
    if (env.number({"SLURM_LOCALID"}).value_or(0) > 0) {
      return several_here(allocation.name, "srun --ntasks-per-node=1");
    }
    allocation.warnings.push_back(allocation.name + " has " + std::to_string(tasks) + " tasks on " +
                                  std::to_string(nodes) +
                                  " nodes: only the first on each node starts workers; use srun "
                                  "--ntasks-per-node=1, and --nproc-per-node for the workers");
  }
  allocation.nnodes = env.integer({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  allocation.node_rank = env.integer({"SLURM_NODEID"});
  if (nodes > 1 && !allocation.node_rank && find(given, "node-rank") == nullptr) {
    return Error{ErrorKind::invalid, "SLURM_NODEID=" + env.text({"SLURM_NODEID"})->text, "",
                 "it is not a node number", "give --node-rank, from 0 to " + std::to_string(nodes - 1)};
  }
  allocation.id = SchedulerAllocation::Value{"slurm-" + job->text + "." + step, "SLURM_JOB_ID"};
  if (nodes > 1) {
    take_first_host(env, allocation);
    allocation.master_port = port_of(job->text, step, "SLURM_JOB_ID");
  }
  return std::optional(std::move(allocation));
}

}  // namespace dlaunch::launcher
