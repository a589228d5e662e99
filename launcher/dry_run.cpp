#include "launcher/dry_run.h"

#include <algorithm>
#include <map>

#include "agent/worker_env.h"
#include "launcher/shell_words.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

// Where the nodes find their ranks themselves, as if this one came first.
int expected_rank(const JobPlan& plan) { return std::max(0, plan.node.node_rank); }

// Every node as large as this one, and of its role.
agent::World expected_world(const JobPlan& plan) {
  agent::World world;
  world.world_size = plan.job.nnodes * plan.node.slots;
  world.nodes = plan.job.nnodes;
  world.store = plan.job.master;
  const int rank = expected_rank(plan);
  const int base_rank = rank * plan.node.slots;
  world.members = {
      {rank, plan.node.slots, base_rank, plan.node.host, plan.node.agent, rank, base_rank, world.world_size}};
  return world;
}

// The variables as lines, without those that are inherited with the same value.
std::vector<std::string> variables(const agent::Environment& all, const JobPlan& plan,
                                   const EnvironmentMap& environment) {
  std::vector<std::string> out;
  for (const auto& [name, value] : all) {
    const auto inherited = environment.find(name);
    if (inherited != environment.end() && inherited->second == value) continue;
    const bool free_port =
        name == env::master_port && plan.job.master.port == 0 && plan.node.worker_store == 0;
    out.push_back(name + "=" + (free_port ? "(a free port)" : quoted(value)));
  }
  return out;
}

std::string cpus_line(const JobPlan& plan, std::size_t local_rank) {
  if (plan.bindings.empty()) return "not bound";
  const Binding& binding = plan.bindings[local_rank];
  return to_list(binding.cpus) + " (" + binding.place + ")";
}

// Where one of a worker's streams goes; the console where nothing else is said.
std::string stream_in_words(const agent::LogOptions& log, agent::Streams stream, int local_rank, int rank) {
  const auto names = [&](const agent::StreamMap& map) {
    return (static_cast<unsigned>(map.of(local_rank)) & static_cast<unsigned>(stream)) != 0;
  };
  const auto& only = log.local_ranks_filter;
  const auto& only_global = log.global_ranks_filter;
  const bool heard =
      (only.empty() || std::binary_search(only.begin(), only.end(), local_rank)) &&
      (only_global.empty() || std::binary_search(only_global.begin(), only_global.end(), rank));
  const bool teed = names(log.tee);
  const bool filed = (teed || names(log.redirects)) && log.dir != agent::no_log_files;
  const bool shown = heard && (teed || !names(log.redirects));
  if (filed) return shown ? "file and console" : "file";
  return shown ? "console" : "nowhere";
}

std::string output_line(const JobPlan& plan, int local_rank, int rank) {
  const std::string out = stream_in_words(plan.log, agent::Streams::out, local_rank, rank);
  const std::string err = stream_in_words(plan.log, agent::Streams::err, local_rank, rank);
  return "  output: " + (out == err ? out : "stdout to " + out + ", stderr to " + err) + "\n";
}

std::string endpoint(const JobPlan& plan) {
  if (plan.job.master.port == 0) return plan.job.master.host + ", a free port";
  std::string text;
  for (const Address& address : plan.job.endpoints)
    text.append(text.empty() ? "" : " or ").append(to_string(address));
  return text;
}

std::string served_in_words(const JobPlan& plan) {
  switch (plan.serves) {
    case JobPlan::Serves::no:
      return "";
    case JobPlan::Serves::yes:
      return " (served here)";
    case JobPlan::Serves::elected:
      return " (etcd; the store is served by who is elected)";
    case JobPlan::Serves::if_ours:
      return " (served here, if it is an address of this machine)";
  }
  return "";
}

// "node 1 of 2", "a node of 2 to 4".
std::string node_in_words(const JobPlan& plan) {
  const std::string most = std::to_string(plan.job.nnodes);
  const std::string count =
      plan.job.least() < plan.job.nnodes ? std::to_string(plan.job.least()) + " to " + most : most;
  const std::string spares = plan.job.spares > 0 ? " and " + std::to_string(plan.job.spares) + " spare" : "";
  const std::string which =
      plan.node.node_rank < 0 ? "a node" : "node " + std::to_string(plan.node.node_rank);
  return which + " of " + count + spares;
}

}  // namespace

std::string dry_run(const Options& options, const JobPlan& plan, const EnvironmentMap& environment) {
  const agent::World world = expected_world(plan);
  const agent::InheritedEnvironment inherited = inherited_environment(options, environment);
  std::vector<std::vector<std::string>> each;
  each.reserve(static_cast<std::size_t>(plan.node.slots));
  for (int i = 0; i < plan.node.slots; ++i)
    each.push_back(
        variables(agent::worker_environment(plan.job, plan.node, world, i, inherited), plan, environment));
  std::map<std::string, int> having;  // workers, by line
  for (const auto& lines : each) {
    for (const std::string& line : lines) ++having[line];
  }
  const auto common = [&](const std::string& line) { return having[line] == plan.node.slots; };

  std::string out = "job " + quoted(plan.job.id) + ": " + node_in_words(plan) + " (" + plan.node.host +
                    "), " + std::to_string(plan.node.slots) +
                    (plan.node.slots == 1 ? " worker" : " workers") + ", store at " + endpoint(plan) +
                    served_in_words(plan) + "\n";
  for (const std::string& line : options.said) out += line + "\n";
  for (const std::string& line : options.warnings) out += "warning: " + line + "\n";
  for (const std::string& line : plan.warnings) out += "warning: " + line + "\n";
  if (agent::wants_log_files(plan.log)) {
    out += "log files in " + (plan.log.dir.empty() ? "the temporary directory" : plan.log.dir) +
           ", in a directory of this job's own\n";
  }
  if (plan.node.node_rank < 0)
    out +=
        "ranks are found when the nodes meet; here, as if this one came first and had its address at the "
        "endpoint\n";
  if (options.verbose) out += "settings:\n" + describe_settings(options);
  out += plan.node.slots == 1 ? "the worker has:\n" : "all workers have:\n";
  for (const std::string& line : each.front()) {
    if (common(line)) out += "  " + line + "\n";
  }
  for (int i = 0; i < plan.node.slots; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const int rank = expected_rank(plan) * plan.node.slots + i;
    out += "rank " + std::to_string(rank) + ":\n";
    out += "  command: " + quoted_line(agent::worker_arguments(plan.node.command, i)) + "\n";
    out += "  cpus: " + cpus_line(plan, at) + "\n";
    out += output_line(plan, i, rank);
    for (const std::string& line : each[at]) {
      if (!common(line)) out += "  " + line + "\n";
    }
  }
  return out;
}

}  // namespace dlaunch::launcher
