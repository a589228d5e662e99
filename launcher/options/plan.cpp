#include "launcher/options/plan.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>

#include "launcher/flags/value_parsers.h"
#include "launcher/topology/accelerators.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

constexpr std::uint16_t usual_port = 29500;       // torchrun's default for static
constexpr std::uint16_t usual_c10d_port = 29400;  // torchrun's default for c10d
constexpr std::uint16_t usual_etcd_port = 2379;

// What no agent supports; nothing else checks it.
Result<void> refuse_what_is_missing(const Options& options) {
  using Backend = Options::Backend;
  if (options.backend == Backend::etcd_v2) {
    return usage("--rdzv-backend=etcd-v2: etcd has removed this interface", "",
                 "use --rdzv-backend=etcd, which needs etcd 3.3 or later");
  }
  const bool ranks_are_found =
      options.backend != Backend::fixed && options.job.nnodes + options.job.spares > 1;
  if (options.node.worker_store != 0 && ranks_are_found) {
    return usage("--worker-store: the node of rank 0 is not known before the nodes meet", "",
                 "use --rdzv-backend=static, or leave it out");
  }
  return {};
}

Result<int> slots_of(const Options& options, const MachineFacts& machine) {
  switch (options.slots_kind) {
    case Options::Slots::number:
      return options.node.slots;
    case Options::Slots::all_cpus:
      return machine.cpus;
    case Options::Slots::gpus_or_cpus:
      return machine.accelerators > 0 ? machine.accelerators : machine.cpus;
    case Options::Slots::accelerators:
      if (machine.accelerators > 0) return machine.accelerators;
      return Error{ErrorKind::not_found, "--nproc-per-node=" + options.accelerator, "",
                   "this machine has no usable device of this kind",
                   "check " + visibility_variables(options.accelerator) + ", or use --nproc-per-node=auto"};
  }
  return options.node.slots;
}

bool alone(const Options& options) { return options.job.nnodes + options.job.spares == 1; }

bool elects(const Options& options) { return options.backend == Options::Backend::etcd && !alone(options); }

// A single node has no other to find: it does not ask etcd, and does not serve at etcd's address.
std::vector<Endpoint> given_endpoints(const Options& options) {
  const bool are_unused_etcds = options.backend == Options::Backend::etcd && alone(options);
  return are_unused_etcds ? std::vector<Endpoint>{} : options.endpoints;
}

// Endpoints take precedence over --master-addr and --master-port.
std::vector<Address> endpoints_of(const Options& options) {
  // No other node has to know the port of a single node, so it takes a free one: two jobs do not collide.
  const std::uint16_t unnamed = alone(options) ? 0 : usual_port;
  const bool c10d = options.backend == Options::Backend::c10d;
  std::vector<Address> out;
  for (const Endpoint& endpoint : given_endpoints(options)) {
    const std::uint16_t usual = c10d              ? usual_c10d_port
                                : elects(options) ? usual_etcd_port
                                                  : options.master_port.value_or(unnamed);
    out.push_back({endpoint.host, endpoint.port.value_or(usual)});
  }
  if (!out.empty()) return out;
  if (elects(options)) return {{"127.0.0.1", usual_etcd_port}};
  const std::string here = alone(options) ? options.local_addr.value_or("127.0.0.1") : "127.0.0.1";
  const std::uint16_t usual = c10d && !alone(options) ? usual_c10d_port : unnamed;
  return {{options.master_addr.value_or(here), options.master_port.value_or(usual)}};
}

// torchrun has one default for all jobs, with which nodes of different jobs could meet. A job that no other
// node can join has a unique id: as in torchrun, programs name scratch directories after it.
std::string id_of(const Options& options, const MachineFacts& machine) {
  if (!options.job.id.empty()) return options.job.id;
  const bool is_joined_by_nobody = alone(options) && options.backend == Options::Backend::fixed &&
                                   options.endpoints.empty() && !options.master_port;
  if (!options.standalone && !is_joined_by_nobody) return "none";
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016" PRIx64, machine.random);
  return std::string("standalone-") + digits.data();
}

agent::JobSpec job_of(const Options& options, const MachineFacts& machine) {
  agent::JobSpec job = options.job;
  job.id = id_of(options, machine);
  // With fixed ranks, nothing is expected to start a lost node again.
  job.replaces = options.backend != Options::Backend::fixed && job.max_restarts > 0;
  job.endpoints = endpoints_of(options);
  job.master = job.endpoints.front();
  job.elected = elects(options);
  if (alone(options)) job.node_timeout = Duration(0);
  return job;
}

void name_sources(const Options& options, JobPlan& plan) {
  const auto from = [&](const char* flag) {
    const Setting* setting = find(options.settings, flag);
    return setting && !setting->value.empty() ? setting->from : std::string("--") + flag;
  };
  const bool by_endpoint = !given_endpoints(options).empty();
  const bool by_own_name = !by_endpoint && !options.master_addr && alone(options) && options.local_addr;
  plan.host_from = from(by_endpoint ? "rdzv-endpoint" : by_own_name ? "local-addr" : "master-addr");
  if (!options.lifeline) plan.rank_from = from("node-rank");
  plan.port_from = from(by_endpoint && options.endpoints.front().port ? "rdzv-endpoint" : "master-port");
}

JobPlan::Serves serves(const Options& options) {
  if (elects(options)) return JobPlan::Serves::elected;
  const bool meet = options.backend == Options::Backend::c10d && !alone(options);
  if (options.hosts_endpoint && meet)
    return *options.hosts_endpoint ? JobPlan::Serves::yes : JobPlan::Serves::no;
  if (meet && (options.endpoints.size() > 1 || !options.node_rank)) return JobPlan::Serves::if_ours;
  return options.node_rank.value_or(0) == 0 ? JobPlan::Serves::yes : JobPlan::Serves::no;
}

int node_rank_of(const Options& options) {
  const bool finds = options.backend != Options::Backend::fixed && !alone(options);
  return options.node_rank.value_or(finds ? -1 : 0);
}

void take_command(const Options& options, const MachineFacts& machine, JobPlan& plan) {
  const std::string& program = options.program.front();
  const bool is_source = program.ends_with(".py") || program.ends_with(".pyz") || machine.program_is_python;
  const bool script = options.run_path || (is_source && !options.no_python);
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
  // On ROCm HIP's variable takes precedence over CUDA's, and both are honoured.
  const bool by_hip = machine.visible_hip_gpus && !machine.visible_hip_gpus->empty();
  const std::optional<std::string>& named = by_hip ? machine.visible_hip_gpus : machine.visible_gpus;
  const std::vector<std::string> visible = comma_list(named.value_or(""));
  if (named && visible.size() < places.size()) {
    return usage("--virtual-local-rank: there are " + std::to_string(places.size()) + " workers, but " +
                     (by_hip ? "HIP" : "CUDA") + "_VISIBLE_DEVICES names " + std::to_string(visible.size()) +
                     (visible.size() == 1 ? " GPU" : " GPUs"),
                 "", "start fewer workers, or name more GPUs");
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i].cuda_visible_devices = named ? visible[i] : std::to_string(i);
    if (by_hip) places[i].hip_visible_devices = visible[i];
  }
  return {};
}

// Only warnings: the same command may run on nodes of different sizes.
void name_missing_ranks(const Options& options, JobPlan& plan) {
  const auto name = [&](const char* flag, int largest) {
    const Setting* setting = find(options.settings, flag);
    if (!setting || largest < plan.node.slots) return;
    plan.warnings.push_back(setting->from + "=" + setting->value + ": there is no local rank " +
                            std::to_string(largest) + " here; " +
                            (plan.node.slots == 1
                                 ? "the only one is 0"
                                 : "local ranks go from 0 to " + std::to_string(plan.node.slots - 1)));
  };
  const auto largest = [](const agent::StreamMap& map) {
    return map.some.empty() ? 0 : map.some.rbegin()->first;
  };
  const auto& only = options.log.local_ranks_filter;
  name("redirects", largest(options.log.redirects));
  name("tee", largest(options.log.tee));
  name("local-ranks-filter", only.empty() ? 0 : only.back());
}

Result<void> take_places(const Options& options, const MachineFacts& machine, JobPlan& plan) {
  if (options.bind == Bind::none && !options.node.virtual_local_rank) return {};
  auto& places = plan.node.places;
  places.resize(static_cast<std::size_t>(plan.node.slots));
  if (options.bind != Bind::none) {
    auto bindings = bind_workers(options.bind, plan.node.slots, machine.topology, machine.visible_gpus);
    if (!bindings) return std::move(bindings).error();
    plan.bindings = std::move(*bindings);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Binding& own = plan.bindings[i];
      const auto sharers = std::count_if(plan.bindings.begin(), plan.bindings.end(),
                                         [&](const Binding& other) { return other.cpus == own.cpus; });
      places[i].cpus = own.cpus;
      places[i].memory_nodes = own.memory_nodes;
      places[i].cores = std::max(1, own.cores / static_cast<int>(sharers));
    }
  }
  return options.node.virtual_local_rank ? give_single_gpus(machine, places) : Result<void>{};
}

// One rank needs no help to find others. Under an mpirun the program finds mpirun's ranks.
bool needs_pmix(const MachineFacts& machine, const JobPlan& plan) {
  const bool is_one = plan.node.slots == 1 && plan.job.nnodes == 1;
  return machine.mpi_library == MpiLibrary::open_mpi && !machine.has_mpi_world && !is_one;
}

agent::MpiStart mpi_start(const Options& options, const MachineFacts& machine, const JobPlan& plan) {
  if (options.mpi == Mpi::pmi) return agent::MpiStart::pmi;
  if (options.mpi == Mpi::pmix) return agent::MpiStart::pmix;
  if (options.mpi == Mpi::none) return agent::MpiStart::none;
  if (machine.mpi_library == MpiLibrary::mpich) return agent::MpiStart::pmi;
  const bool is_offered = needs_pmix(machine, plan) && !machine.pmix_program.empty();
  return is_offered ? agent::MpiStart::pmix : agent::MpiStart::none;
}

// PMI and PMIx are offered by themselves only to programs that are linked with an MPI that needs them: to
// others they would do harm. A single rank that calls MPI_Init, by itself or in a library that it loads,
// would wait for all others; and a program that a worker starts would take itself for that worker.
Result<void> take_mpi(const Options& options, const MachineFacts& machine, JobPlan& plan) {
  plan.job.mpi = mpi_start(options, machine, plan);
  if (plan.job.mpi == agent::MpiStart::pmix) {
    if (machine.pmix_program.empty())
      return Error{ErrorKind::refused, "--mpi=pmix is not available", "",
                   "there is no dlaunch-pmix in dlaunch's library folder",
                   "build dlaunch where libpmix is (Debian: libpmix-dev), or start the program with mpirun"};
    plan.node.pmix_program = machine.pmix_program;
  }
  const bool is_left_alone = options.mpi == Mpi::automatic && plan.job.mpi == agent::MpiStart::none;
  if (!is_left_alone || !needs_pmix(machine, plan)) return {};
  plan.warnings.push_back(
      plan.program +
      " is linked with Open MPI, whose ranks find each other with dlaunch-pmix, which is not "
      "in dlaunch's library folder: each of its processes will be rank 0 of 1. Start it "
      "with mpirun -n N " +
      plan.program + ", or build dlaunch where libpmix is (Debian: libpmix-dev)");
  return {};
}

}  // namespace

Result<JobPlan> make_plan(const Options& options, const MachineFacts& machine) {
  if (auto possible = refuse_what_is_missing(options); !possible) return std::move(possible).error();
  auto slots = slots_of(options, machine);
  if (!slots) return std::move(slots).error();

  JobPlan plan;
  plan.log = options.log;
  plan.job = job_of(options, machine);
  plan.serves = serves(options);
  plan.pod = machine.pod;
  name_sources(options, plan);
  if (elects(options)) {
    plan.etcd_key = options.etcd_prefix + "/" + plan.job.id + "/leader";
    plan.own = {options.local_addr.value_or(""), options.master_port.value_or(0)};
  }

  if (options.node.worker_store != 0 && options.node.worker_store == plan.job.master.port) {
    return usage(
        "--worker-store=" + std::to_string(options.node.worker_store) + " is the port where the nodes meet",
        "", "choose another port");
  }

  plan.node = options.node;
  plan.node.node_rank = node_rank_of(options);
  plan.node.slots = *slots;
  plan.node.cpus = machine.cpus;
  plan.node.host = options.local_addr.value_or(machine.host);
  plan.node.python_package = machine.python_package;
  plan.node.error_files = options.log.dir != agent::no_log_files;

  take_command(options, machine, plan);
  if (auto mpi = take_mpi(options, machine, plan); !mpi) return std::move(mpi).error();
  name_missing_ranks(options, plan);
  if (auto placed = take_places(options, machine, plan); !placed) return std::move(placed).error();
  return plan;
}

agent::InheritedEnvironment inherited_environment(const Options& options, const EnvironmentMap& environment) {
  const auto leave = [&](std::string_view name) {
    return !options.env_defaults || environment.contains(name);
  };
  const auto threads = environment.find(env::omp_num_threads);
  const bool is_auto = threads != environment.end() && threads->second == "auto";
  const auto python_path = environment.find(env::python_path);
  return {!is_auto && leave(env::omp_num_threads),
          leave(env::nccl_async_error_handling),
          leave(env::gloo_store_v2),
          leave(env::gloo_sequence_number),
          is_auto,
          python_path == environment.end() ? "" : python_path->second,
          leave(env::fr_buffer_size) || leave(env::fr_buffer_size_before),
          leave(env::fr_dump_on_timeout) || leave(env::fr_dump_on_timeout_before),
          leave(env::fr_dump_file) || leave(env::fr_dump_file_before),
          leave(env::worker_server_socket),
          !options.env_defaults};
}

}  // namespace dlaunch::launcher
