#include "launcher/options/dry_run.h"

#include <algorithm>
#include <map>

#include "agent/model/worker_environment.h"
#include "launcher/flags/shell_words.h"
#include "store/contract/worker_env.h"

namespace dlaunch::launcher {
namespace {

// If the nodes find their ranks themselves: as if this one came first.
int expected_rank(const JobPlan& plan) { return std::max(0, plan.node.node_rank); }

NodePlace among_equals(const JobPlan& plan) {
  return {expected_rank(plan) * plan.node.slots, plan.job.nnodes * plan.node.slots};
}

// As if all nodes had this one's role.
agent::World expected_world(const JobPlan& plan, const NodePlace& place) {
  agent::World world;
  world.world_size = place.world_size.value_or(0);
  world.nodes = plan.job.nnodes;
  world.store = plan.job.master;
  const int rank = expected_rank(plan);
  const int base_rank = place.base_rank.value_or(0);
  world.members = {
      {rank, plan.node.slots, base_rank, plan.node.host, plan.node.agent, rank, base_rank, world.world_size}};
  return world;
}

// The variables as lines, without those that are inherited with the same value.
std::vector<std::string> variables(const agent::Environment& all, const Options& options, const JobPlan& plan,
                                   const NodePlace& place, const EnvironmentMap& environment) {
  std::vector<std::string> out;
  const bool threads_follow_cpus =
      options.bind != Bind::none || inherited_environment(options, environment).omp_num_threads_is_auto;
  const auto is_found_there = [&](const std::string& name) {
    return place.elsewhere &&
           (name == env::cuda_visible_devices || (name == env::omp_num_threads && threads_follow_cpus));
  };
  const auto is_open = [&](const std::string& name) {
    return (!place.base_rank && (name == env::rank || name == env::role_rank)) ||
           (!place.world_size && (name == env::world_size || name == env::role_world_size));
  };
  for (const auto& [name, value] : all) {
    if (is_open(name)) {
      out.push_back(name + "=(assigned when the nodes meet)");
      continue;
    }
    if (name == env::fencing_token) {
      out.push_back(name + "=(a number that grows with each world)");
      continue;
    }
    if (is_found_there(name)) {
      out.push_back(name + "=(found on that machine)");
      continue;
    }
    const auto inherited = environment.find(name);
    if (inherited != environment.end() && inherited->second == value) continue;
    const bool free_port =
        name == env::master_port && plan.job.master.port == 0 && plan.node.worker_store == 0;
    out.push_back(name + "=" + (free_port ? "(a free port)" : shell_quoted(value)));
  }
  return out;
}

std::string cpus_line(const Options& options, const JobPlan& plan, bool elsewhere, std::size_t local_rank) {
  if (elsewhere && options.bind != Bind::none) return "bound as that machine allows";
  if (plan.bindings.empty()) return "not bound";
  const Binding& binding = plan.bindings[local_rank];
  return to_list(binding.cpus) + " (" + binding.place + ")";
}

// Empty: no node is preferred.
std::string memory_line(const JobPlan& plan, bool elsewhere, std::size_t local_rank) {
  if (elsewhere || plan.bindings.empty()) return "";
  const std::vector<int>& nodes = plan.bindings[local_rank].memory_nodes;
  if (nodes.empty()) return "";
  return std::string("  memory: ") + (nodes.size() == 1 ? "node " : "nodes ") + to_list(nodes) +
         " preferred\n";
}

// Where one of a worker's streams goes; by default the console.
std::string describe_stream(const agent::LogOptions& log, agent::Streams stream, int local_rank, int rank) {
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

std::string output_line(const JobPlan& plan, int local_rank, std::optional<int> global_rank) {
  if (!global_rank && !plan.log.global_ranks_filter.empty())
    return "  output: depends on whether --global-ranks-filter has its rank\n";
  const int rank = global_rank.value_or(0);
  const std::string out = describe_stream(plan.log, agent::Streams::out, local_rank, rank);
  const std::string err = describe_stream(plan.log, agent::Streams::err, local_rank, rank);
  return "  output: " + (out == err ? out : "stdout to " + out + ", stderr to " + err) + "\n";
}

std::string endpoint(const JobPlan& plan) {
  if (plan.job.master.port == 0) return plan.job.master.host + ", a free port";
  std::string text;
  for (const Address& address : plan.job.endpoints)
    text.append(text.empty() ? "" : " or ").append(to_string(address));
  return text;
}

std::string describe_served(const JobPlan& plan) {
  switch (plan.serves) {
    case JobPlan::Serves::no:
      return "";
    case JobPlan::Serves::yes:
      return " (served here)";
    case JobPlan::Serves::elected:
      return " (etcd; the elected node serves the store)";
    case JobPlan::Serves::if_ours:
      return " (served here, if it is an address of this machine)";
  }
  return "";
}

// "node 1 of 2", "a node of 2 to 4".
std::string describe_node(const JobPlan& plan) {
  const std::string most = std::to_string(plan.job.nnodes);
  const std::string count = plan.job.required_nodes() < plan.job.nnodes
                                ? std::to_string(plan.job.required_nodes()) + " to " + most
                                : most;
  const std::string spares = plan.job.spares > 0 ? " and " + std::to_string(plan.job.spares) + " spare" : "";
  const std::string which =
      plan.node.node_rank < 0 ? "a node" : "node " + std::to_string(plan.node.node_rank);
  return which + " of " + count + spares;
}

}  // namespace

std::string dry_run(const Options& options, const JobPlan& plan, const EnvironmentMap& environment,
                    const std::optional<NodePlace>& known_place) {
  const NodePlace place = known_place.value_or(among_equals(plan));
  const agent::World world = expected_world(plan, place);
  const agent::InheritedEnvironment inherited = inherited_environment(options, environment);
  std::vector<std::vector<std::string>> each;
  each.reserve(static_cast<std::size_t>(plan.node.slots));
  for (int i = 0; i < plan.node.slots; ++i)
    each.push_back(variables(agent::worker_environment(plan.job, plan.node, world, i, inherited), options,
                             plan, place, environment));
  std::map<std::string, int> having;  // workers, by line
  for (const auto& lines : each) {
    for (const std::string& line : lines) ++having[line];
  }
  const auto common = [&](const std::string& line) { return having[line] == plan.node.slots; };

  std::string out = "job " + shell_quoted(plan.job.id) + ": " + describe_node(plan) + " (" + plan.node.host +
                    "), " + std::to_string(plan.node.slots) +
                    (plan.node.slots == 1 ? " worker" : " workers") + ", store at " + endpoint(plan) +
                    describe_served(plan) + "\n";
  for (const std::string& line : options.notices) out += line + "\n";
  for (const std::string& line : options.warnings) out += "warning: " + line + "\n";
  for (const std::string& line : plan.warnings) out += "warning: " + line + "\n";
  if (agent::wants_log_files(plan.log)) {
    out += "log files in a new directory in " +
           (plan.log.dir.empty() ? "the temporary directory" : plan.log.dir) + "\n";
  }
  if (plan.node.node_rank < 0)
    out +=
        "ranks are assigned when the nodes meet; this shows them as if this node came first and had the "
        "endpoint's address\n";
  if (options.verbose) out += "settings:\n" + describe_settings(options);
  out += plan.node.slots == 1 ? "the worker has:\n" : "all workers have:\n";
  for (const std::string& line : each.front()) {
    if (common(line)) out += "  " + line + "\n";
  }
  for (int i = 0; i < plan.node.slots; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const auto rank = place.base_rank ? std::optional(*place.base_rank + i) : std::nullopt;
    out += rank ? "rank " + std::to_string(*rank) + ":\n" : "local rank " + std::to_string(i) + ":\n";
    out += "  command: " + quoted_line(agent::worker_arguments(plan.node.command, i)) + "\n";
    out += "  cpus: " + cpus_line(options, plan, place.elsewhere, at) + "\n";
    out += memory_line(plan, place.elsewhere, at);
    out += output_line(plan, i, rank);
    for (const std::string& line : each[at]) {
      if (!common(line)) out += "  " + line + "\n";
    }
  }
  return out;
}

}  // namespace dlaunch::launcher
