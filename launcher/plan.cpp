#include "launcher/plan.h"

#include "launcher/values.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

constexpr std::uint16_t usual_port = 29500;       // torchrun's, of static
constexpr std::uint16_t usual_c10d_port = 29400;  // torchrun's, of c10d

// What the agents cannot do yet; nothing else knows of it.
Result<void> refuse_what_is_missing(const Options& options) {
  using Backend = Options::Backend;
  if (options.min_nodes < options.nnodes) {
    return usage("--nnodes=" + std::to_string(options.min_nodes) + ":" + std::to_string(options.nnodes) +
                     ": a job whose size may change is not supported by this version",
                 "", "give one number of nodes");
  }
  if (options.backend == Backend::etcd || options.backend == Backend::etcd_v2) {
    return usage("--rdzv-backend=etcd is not supported by this version", "",
                 "use --rdzv-backend=c10d with --rdzv-endpoint=HOST:PORT of node 0");
  }
  if (options.endpoint_host && options.endpoint_host->find(',') != std::string::npos) {
    return usage("--rdzv-endpoint: several endpoints are not supported by this version", "",
                 "name that of node 0");
  }
  if (options.backend == Backend::c10d && options.nnodes > 1 && !options.node_rank) {
    return usage(
        "--rdzv-backend=c10d: nodes that find their ranks themselves are not supported by this version", "",
        "give each node its --node-rank");
  }
  return {};
}

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

// An endpoint goes before --master-addr and --master-port.
Address master_of(const Options& options) {
  // On one node nobody else has to know the port, so two jobs need not quarrel about one.
  const std::uint16_t unnamed = options.nnodes > 1 ? usual_port : 0;
  if (options.endpoint_host) {
    const bool c10d = options.backend == Options::Backend::c10d;
    return {*options.endpoint_host,
            options.endpoint_port.value_or(c10d ? usual_c10d_port : options.master_port.value_or(unnamed))};
  }
  const std::string alone = options.nnodes == 1 ? options.local_addr.value_or("127.0.0.1") : "127.0.0.1";
  return {options.master_addr.value_or(alone), options.master_port.value_or(unnamed)};
}

void take_command(const Options& options, const MachineFacts& machine, JobPlan& plan) {
  const std::string& program = options.program.front();
  const bool script = options.run_path || (program.ends_with(".py") && !options.no_python);
  if (options.module) {
    plan.node.command = {machine.python, "-u", "-m"};
  } else if (script) {
    plan.node.command = {machine.python, "-u"};
    plan.script = program;
  }
  plan.node.command.push_back(program);
  if (options.pass_local_rank) plan.node.command.emplace_back("--local-rank=${local_rank}");
  plan.node.command.insert(plan.node.command.end(), options.program.begin() + 1, options.program.end());
  plan.program = plan.node.command.front();
}

// One GPU each, as torchrun does it.
Result<void> give_single_gpus(const MachineFacts& machine, std::vector<agent::WorkerPlace>& places) {
  const std::vector<std::string> visible = comma_list(machine.visible_gpus.value_or(""));
  if (machine.visible_gpus && visible.size() < places.size()) {
    return usage("--virtual-local-rank: there are " + std::to_string(places.size()) +
                     " workers, but CUDA_VISIBLE_DEVICES names " + std::to_string(visible.size()) + " GPUs",
                 "", "start fewer workers, or name more GPUs");
  }
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i].cuda_visible_devices = machine.visible_gpus ? visible[i] : std::to_string(i);
  return {};
}

Result<void> take_places(const Options& options, const MachineFacts& machine, JobPlan& plan) {
  if (options.bind == Bind::none && !options.virtual_local_rank) return {};
  auto& places = plan.node.places;
  places.resize(static_cast<std::size_t>(plan.node.slots));
  if (options.bind != Bind::none) {
    auto bindings = bind_workers(options.bind, plan.node.slots, machine.topology, machine.visible_gpus);
    if (!bindings) return std::move(bindings).error();
    plan.bindings = std::move(*bindings);
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i].cpus = plan.bindings[i].cpus;
      places[i].cores = plan.bindings[i].cores;
    }
  }
  plan.node.virtual_local_rank = options.virtual_local_rank;
  return options.virtual_local_rank ? give_single_gpus(machine, places) : Result<void>{};
}

}  // namespace

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine) {
  if (auto possible = refuse_what_is_missing(options); !possible) return std::move(possible).error();
  auto slots = slots_of(options, machine);
  if (!slots) return std::move(slots).error();

  JobPlan plan;
  plan.log = options.log;
  plan.hosts_store = options.node_rank.value_or(0) == 0;
  plan.job.id = options.job_id.empty() ? "none" : options.job_id;
  plan.job.nnodes = options.nnodes;
  plan.job.max_restarts = options.max_restarts;
  plan.job.join_timeout = options.join_timeout;
  plan.job.stop_timeout = options.stop_timeout;
  plan.job.master = master_of(options);

  plan.node.node_rank = options.node_rank.value_or(0);
  plan.node.slots = *slots;
  plan.node.host = options.local_addr.value_or(machine.host);
  plan.node.role = options.role;
  plan.node.stop_signals = options.stop_signals;
  plan.node.preempt_signal = options.preempt_signal;
  plan.node.preempt_notice = options.preempt_notice;

  take_command(options, machine, plan);
  if (auto placed = take_places(options, machine, plan); !placed) return std::move(placed).error();
  return plan;
}

agent::InheritedEnvironment inherited_environment(const Options& options, const EnvironmentMap& environment) {
  const auto leave = [&](std::string_view name) {
    return !options.env_defaults || environment.contains(name);
  };
  return {leave(env::omp_num_threads), leave(env::nccl_async_error_handling), leave(env::gloo_store_v2),
          leave(env::gloo_sequence_number)};
}

}  // namespace dlaunch::launcher
