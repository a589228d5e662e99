// Slurm: a step has one dlaunch on each of its nodes; a batch script is alone.
#include <utility>

#include "launcher/flags/values.h"
#include "launcher/scheduler/host_list.h"
#include "launcher/scheduler/scheduler_claim.h"

namespace dlaunch::launcher {
namespace {

void take_first_host(const Variables& env, SchedulerClaim& claim) {
  const auto list = env.text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  if (!list) {
    claim.no_master = usage(claim.who + " does not say which nodes it has", "SLURM_STEP_NODELIST is not set",
                            name_the_first_host);
    return;
  }
  auto hosts = expand_hosts(list->text);
  if (hosts) {
    claim.master_addr = SchedulerClaim::Value{hosts->front(), list->from};
  } else {
    claim.no_master = std::move(hosts).error().with_where("in " + list->from).with_hint(name_the_first_host);
  }
}

}  // namespace

Claimed slurm_claim(const Variables& env, const Settings& given) {
  const bool nnodes_given = find(given, "nnodes") != nullptr;
  const auto job = env.text({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return no_claim();
  const bool in_step = env.has("SLURM_STEP_ID") && env.has("SLURM_NODEID");
  const auto job_nodes = env.number({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"}).value_or(1);
  if (!in_step) {
    if (job_nodes > 1 && !nnodes_given) {
      return alone("Slurm job " + job->text, std::to_string(job_nodes),
                   "start it with srun --ntasks-per-node=1 dlaunch ..., or say --nnodes=1 if one is meant");
    }
    return no_claim();
  }

  const std::string step = env.text({"SLURM_STEP_ID"})->text;
  SchedulerClaim claim;
  claim.who = "Slurm step " + job->text + "." + step;
  const auto tasks = env.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}).value_or(1);
  const auto nodes = env.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}).value_or(1);
  if (tasks > nodes && !nnodes_given) {
    if (env.number({"SLURM_LOCALID"}).value_or(0) > 0) {
      return several_here(claim.who, "srun --ntasks-per-node=1");
    }
    claim.warnings.push_back(claim.who + " has " + std::to_string(tasks) + " tasks on " +
                             std::to_string(nodes) +
                             " nodes: only the first on each node starts workers; use srun "
                             "--ntasks-per-node=1, and --nproc-per-node for the workers");
  }
  claim.nnodes = env.integer({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
  claim.node_rank = env.integer({"SLURM_NODEID"});
  if (nodes > 1 && !claim.node_rank && find(given, "node-rank") == nullptr) {
    return Error{ErrorKind::invalid, "SLURM_NODEID=" + env.text({"SLURM_NODEID"})->text, "",
                 "it is no node's number",
                 "say which of " + std::to_string(nodes) + " this is with --node-rank"};
  }
  claim.id = SchedulerClaim::Value{"slurm-" + job->text + "." + step, "SLURM_JOB_ID"};
  if (nodes > 1) {
    take_first_host(env, claim);
    claim.master_port = port_of(job->text, step, "SLURM_JOB_ID");
  }
  return std::optional(std::move(claim));
}

}  // namespace dlaunch::launcher
