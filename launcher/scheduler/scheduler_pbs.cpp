// PBS (Torque, OpenPBS, PBS Pro): the job's script runs on the first node only; pbsdsh and pbs_tmrsh start
// tasks on the others.
#include <algorithm>
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/scheduler_allocation.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

using Value = SchedulerAllocation::Value;

constexpr const char* no_file = "PBS_NODEFILE cannot be read on this host";

// The node file has one line for each slot. The lines of one node may be apart.
struct Nodes {
  std::vector<std::string> slots;
  std::vector<std::string> hosts;
};

Nodes nodes_in(const std::string& file) {
  Nodes nodes;
  std::size_t at = 0;
  while (at < file.size()) {
    const std::size_t end = std::min(file.find('\n', at), file.size());
    std::string host = file.substr(at, end - at);
    while (!host.empty() && (host.back() == ' ' || host.back() == '\r')) host.pop_back();
    at = end + 1;
    if (host.empty()) continue;
    if (std::find(nodes.hosts.begin(), nodes.hosts.end(), host) == nodes.hosts.end())
      nodes.hosts.push_back(host);
    nodes.slots.push_back(std::move(host));
  }
  return nodes;
}

// The script itself is task 1; PBS writes the number in hexadecimal digits.
bool is_task(const Variables& env) {
  const auto task = env.text({"PBS_TASKNUM"});
  if (!task) return false;
  return parse_number<std::uint64_t>(task->text, 16).value_or(1) != 1;
}

// pbsdsh without -u: one dlaunch for each slot.
bool is_second_here(const Variables& env, const Nodes& nodes) {
  const auto slot = env.number({"PBS_VNODENUM"});
  if (!slot || *slot >= nodes.slots.size()) return false;
  const auto own = nodes.slots.begin() + static_cast<std::ptrdiff_t>(*slot);
  return std::find(nodes.slots.begin(), own, *own) != own;
}

}  // namespace

AllocationResult pbs_allocation(const Variables& env, const SchedulerEnvironment& scheduler_env,
                                const Settings& given) {
  const auto job = env.text({"PBS_JOBID"});
  if (!job) return no_allocation();
  const bool nnodes_given = find(given, "nnodes") != nullptr;
  const Nodes nodes = nodes_in(scheduler_env.pbs_nodes);
  const auto place = place_of(scheduler_env.host, nodes.hosts);
  SchedulerAllocation allocation;
  allocation.name = "PBS job " + job->text;
  allocation.nnodes = env.integer({"PBS_NUM_NODES"});
  if (!nodes.hosts.empty()) allocation.nnodes = Value{std::to_string(nodes.hosts.size()), "PBS_NODEFILE"};
  const bool has_several = allocation.nnodes && allocation.nnodes->text != "1";

  if (!is_task(env) && place.value_or(0) == 0) {
    if (!has_several || nnodes_given) return no_allocation();
    return alone(allocation.name, allocation.nnodes->text,
                 "start it with pbsdsh -u dlaunch ..., or with --hostfile=$PBS_NODEFILE, or give "
                 "--nnodes=1 to use only this node");
  }
  if (!allocation.nnodes && !nnodes_given) {
    return usage(allocation.name + " does not say how many nodes it has", no_file,
                 "give --nnodes, and " + std::string(name_the_first_host));
  }
  if (!nnodes_given && is_second_here(env, nodes)) return several_here(allocation.name, "pbsdsh -u");
  allocation.node_rank = place ? Value{std::to_string(*place), "PBS_NODEFILE"} : env.integer({"PBS_NODENUM"});
  allocation.id = Value{"pbs-" + job->text, "PBS_JOBID"};
  if (nodes.hosts.empty()) {
    allocation.no_master =
        usage(allocation.name + " does not say which nodes it has", no_file, name_the_first_host);
  } else if (has_several) {
    allocation.master_addr = Value{nodes.hosts.front(), "PBS_NODEFILE"};
    allocation.master_port = port_of(job->text, "", "PBS_JOBID");
  }
  return std::optional(std::move(allocation));
}

}  // namespace dlaunch::launcher
