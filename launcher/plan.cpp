#include "launcher/plan.h"

namespace dlaunch::launcher {
namespace {

constexpr std::uint16_t usual_port = 29500;  // torchrun's

Result<int> slots_of(const Options& options, const MachineFacts& machine) {
  switch (options.slots_kind) {
    case Options::Slots::number:
      return options.slots;
    case Options::Slots::all_cpus:
      return machine.cpus;
    case Options::Slots::gpus_or_cpus:
      return machine.gpus > 0 ? machine.gpus : machine.cpus;
    case Options::Slots::all_gpus:
      if (machine.gpus > 0) return machine.gpus;
      return Error{ErrorKind::not_found, "--nproc-per-node=gpu", "",
                   "this machine has no GPU that may be used",
                   "check CUDA_VISIBLE_DEVICES, or use --nproc-per-node=auto"};
  }
  return options.slots;
}

}  // namespace

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine) {
  auto slots = slots_of(options, machine);
  if (!slots) return std::move(slots).error();

  JobPlan plan;
  plan.hosts_store = options.node_rank == 0;
  plan.job.id = options.job_id.empty() ? "none" : options.job_id;
  plan.job.nnodes = options.nnodes;
  plan.job.max_restarts = options.max_restarts;
  plan.job.join_timeout = options.join_timeout;
  plan.job.stop_timeout = options.stop_timeout;
  plan.job.master.host = options.master_addr.value_or("127.0.0.1");
  // On one node nobody else has to know the port, so two jobs need not quarrel about one.
  plan.job.master.port = options.master_port.value_or(options.nnodes > 1 ? usual_port : 0);

  plan.node.node_rank = options.node_rank;
  plan.node.slots = *slots;
  plan.node.host = machine.host;
  plan.node.role = options.role;

  const std::string& program = options.program.front();
  if (options.module) {
    plan.node.command = {machine.python, "-u", "-m"};
  } else if (program.ends_with(".py") && !options.no_python) {
    plan.node.command = {machine.python, "-u"};
    plan.script = program;
  }
  plan.node.command.insert(plan.node.command.end(), options.program.begin(), options.program.end());
  plan.program = plan.node.command.front();
  return plan;
}

}  // namespace dlaunch::launcher
