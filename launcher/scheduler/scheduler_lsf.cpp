// IBM Spectrum LSF: the job's script runs on the first host only; blaunch starts tasks on the others. No
// variable distinguishes a task on the first host from the script, so the number of nodes must be given.
#include <algorithm>
#include <sstream>
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/scheduler_allocation.h"

namespace dlaunch::launcher {
namespace {

using Value = SchedulerAllocation::Value;

struct Hosts {
  std::vector<std::string> names;
  std::string from;
};

// LSB_MCPU_HOSTS has each host with its number of slots, "n1 4 n2 4"; LSB_HOSTS has a name for each slot.
Hosts hosts_of(const Variables& env) {
  Hosts hosts;
  const auto list = env.text({"LSB_MCPU_HOSTS", "LSB_HOSTS"});
  if (!list) return hosts;
  hosts.from = list->from;
  const bool has_counts = list->from == "LSB_MCPU_HOSTS";
  std::istringstream words(list->text);
  std::string count;
  for (std::string host; words >> host;) {
    if (has_counts && !(words >> count)) return {};
    if (std::ranges::find(hosts.names, host) == hosts.names.end()) hosts.names.push_back(host);
  }
  return hosts;
}

}  // namespace

AllocationResult lsf_allocation(const Variables& env, const std::string& host, const Settings& given) {
  const auto job = env.text({"LSB_JOBID"});
  const Hosts hosts = hosts_of(env);
  if (!job || hosts.names.size() < 2) return no_allocation();
  const std::string count = std::to_string(hosts.names.size());
  const std::string element = env.text({"LSB_JOBINDEX"}).value_or(Value{"0", ""}).text;  // of a job array
  const std::string id = job->text + (element == "0" ? "" : "." + element);
  SchedulerAllocation allocation;
  allocation.name = "LSF job " + id;
  if (find(given, "nnodes") == nullptr) {
    return alone(allocation.name, count,
                 "start it with blaunch on each host and --nnodes=" + count +
                     ", or with --hostfile=$LSB_DJOB_HOSTFILE, or give --nnodes=1 to use only this node");
  }
  allocation.nnodes = Value{count, hosts.from};
  if (const auto place = place_of(host, hosts.names))
    allocation.node_rank = Value{std::to_string(*place), hosts.from};
  allocation.master_addr = Value{hosts.names.front(), hosts.from};
  allocation.master_port = port_of(job->text, element, "LSB_JOBID");
  allocation.id = Value{"lsf-" + id, "LSB_JOBID"};
  return std::optional(std::move(allocation));
}

}  // namespace dlaunch::launcher
