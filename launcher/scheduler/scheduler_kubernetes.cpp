// Kubernetes: a PyTorchJob's pods, and an Indexed Job's.
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/pod_name.h"
#include "launcher/scheduler/scheduler_allocation.h"
#include "store/base/address.h"

namespace dlaunch::launcher {

// For operators before Kubeflow's Training v1.7; newer ones set PET_*, the variables of flags.
AllocationResult pytorch_job_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env) {
  const auto world = env.integer({"WORLD_SIZE"});
  const auto rank = env.integer({"RANK"});
  const auto addr = env.text({"MASTER_ADDR"});
  if (!env.has("KUBERNETES_SERVICE_HOST") || env.has("PET_NNODES") || !world || !rank || !addr)
    return no_allocation();
  SchedulerAllocation allocation;
  allocation.name = "Kubernetes PyTorchJob";
  allocation.nnodes = world;
  allocation.node_rank = rank;
  allocation.master_addr = addr;
  allocation.master_port = env.integer({"MASTER_PORT"});
  // The master's own pod gets "localhost", which is useless to the others; its service has the pod's name.
  if (is_loopback(addr->text) && world->text != "1")
    allocation.master_addr = SchedulerAllocation::Value{scheduler_env.host, "the pod's name"};
  return std::optional(std::move(allocation));
}

// A pod of an Indexed Job knows its index, but not the number of pods. Pods can resolve each other's names
// only with a subdomain (a headless service).
AllocationResult indexed_job_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env,
                                        const Settings& given) {
  const auto index = env.integer({"JOB_COMPLETION_INDEX"});
  const Setting* nnodes = find(given, "nnodes");
  if (!index || !nnodes || nnodes->value == "1") return no_allocation();
  SchedulerAllocation allocation;
  allocation.name = "Kubernetes Indexed Job";
  allocation.node_rank = index;

  const std::string suffix = "-" + index->text;
  const std::string full = full_name(scheduler_env.hosts_file, scheduler_env.host);
  const std::size_t dot = full.find('.');
  if (scheduler_env.host.ends_with(suffix) && dot != std::string::npos) {
    const std::string job = scheduler_env.host.substr(0, scheduler_env.host.size() - suffix.size());
    allocation.master_addr = SchedulerAllocation::Value{job + "-0" + full.substr(dot), "the pod's name"};
  } else {
    allocation.no_master = usage(
        "the pods of this Indexed Job cannot resolve each other's names (" + scheduler_env.host + ")", "",
        "give the Job's pods a subdomain with a headless service, or " + std::string(name_the_first_host));
  }
  return std::optional(std::move(allocation));
}

}  // namespace dlaunch::launcher
