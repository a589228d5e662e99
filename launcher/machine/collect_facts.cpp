#include "launcher/machine/collect_facts.h"

#include <filesystem>
#include <system_error>

#include "launcher/machine/interpreter.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/mpi_library.h"
#include "launcher/machine/program_file.h"
#include "launcher/scheduler/pod_name.h"
#include "launcher/topology/accelerators.h"
#include "launcher/topology/topology.h"
#include "store/base/random.h"

namespace dlaunch::launcher {
namespace {

// In the build tree it lies beside bin/; a wheel puts it where Python finds it.
std::string python_package() {
  std::error_code failed;
  const auto folder = std::filesystem::path(own_path()).parent_path().parent_path() / "python";
  return std::filesystem::exists(folder / "dlaunch" / "torch", failed) ? folder.string() : "";
}

// As installed; otherwise as in the build directory. Empty: it is not there.
std::string pmix_program() {
  const auto folder = std::filesystem::path(own_path()).parent_path();
  for (const char* place : {DLAUNCH_LIBRARY_FOLDER "/dlaunch-pmix", "../lib/dlaunch/dlaunch-pmix"}) {
    std::error_code failed;
    const auto program = (folder / place).lexically_normal();
    if (std::filesystem::exists(program, failed)) return program.string();
  }
  return "";
}

}  // namespace

MachineFacts collect_facts(const Options& options, const SchedulerEnvironment& scheduler_env) {
  const auto variable = [&](const char* name) {
    const auto found = scheduler_env.environment.find(name);
    return found == scheduler_env.environment.end() ? std::nullopt : std::optional(found->second);
  };
  MachineFacts machine;
  const Cpus cpus = allowed_cpus();
  machine.cpus = static_cast<int>(cpus.size());
  if (options.slots_kind == Options::Slots::gpus_or_cpus)
    machine.accelerators = count_accelerators("gpu", scheduler_env.environment);
  if (options.slots_kind == Options::Slots::accelerators)
    machine.accelerators = count_accelerators(options.accelerator, scheduler_env.environment);
  machine.host = scheduler_env.host;
  if (!scheduler_env.hosts_file.empty())
    machine.pod = full_name(scheduler_env.hosts_file, scheduler_env.host);
  machine.python = python_interpreter(scheduler_env.environment, own_path());
  machine.program_is_python = is_python_source(options.program.front());
  if (!options.module) machine.mpi_library = mpi_library(options.program.front());
  if (machine.mpi_library == MpiLibrary::open_mpi || options.mpi == Mpi::pmix)
    machine.pmix_program = pmix_program();
  machine.has_mpi_world = variable("PMIX_RANK") || variable("OMPI_COMM_WORLD_SIZE");
  if (!options.job.accelerate.empty()) machine.python_package = python_package();
  machine.visible_gpus = variable("CUDA_VISIBLE_DEVICES");
  machine.visible_hip_gpus = variable("HIP_VISIBLE_DEVICES");
  machine.random = random_u64();
  if (options.bind != Bind::none) machine.topology = read_topology(cpus);
  return machine;
}

}  // namespace dlaunch::launcher
