#include "launcher/machine/machine_facts.h"

#include "launcher/machine/interpreter.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/program_file.h"
#include "launcher/topology/accelerators.h"
#include "launcher/topology/topology.h"
#include "store/base/entropy.h"

namespace dlaunch::launcher {

MachineFacts facts_of_this_machine(const Options& options, const Surroundings& around) {
  const auto variable = [&](const char* name) {
    const auto found = around.environment.find(name);
    return found == around.environment.end() ? std::nullopt : std::optional(found->second);
  };
  MachineFacts machine;
  const Cpus cpus = allowed_cpus();
  machine.cpus = static_cast<int>(cpus.size());
  if (options.slots_kind == Options::Slots::gpus_or_cpus)
    machine.accelerators = count_accelerators("gpu", around.environment);
  if (options.slots_kind == Options::Slots::accelerators)
    machine.accelerators = count_accelerators(options.accelerator, around.environment);
  machine.host = around.host;
  machine.python = python_interpreter(around.environment, own_path());
  machine.program_is_python = is_python_source(options.program.front());
  machine.visible_gpus = variable("CUDA_VISIBLE_DEVICES");
  machine.visible_hip_gpus = variable("HIP_VISIBLE_DEVICES");
  machine.random = draw_number();
  if (options.bind != Bind::none) machine.topology = read_topology(cpus);
  return machine;
}

}  // namespace dlaunch::launcher
