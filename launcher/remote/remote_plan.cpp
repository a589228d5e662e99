#include "launcher/remote/remote_plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>

#include "launcher/flags/shell_words.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/scheduler/job_port.h"
#include "store/base/address.h"

namespace dlaunch::launcher {
namespace {

constexpr const char* shell = "/bin/sh";

// Carried to every host by default; --export names others. Variables that differ between hosts
// (CUDA_VISIBLE_DEVICES, TMPDIR, USER) are not among them.
constexpr std::array carried_names{"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHON_EXEC"};
constexpr std::array carried_prefixes{"DLAUNCH_", "PET_", "NCCL_", "TORCH_", "GLOO_", "OMP_"};

// Flags that are each host's own, or generated here.
constexpr std::array not_passed_on{"hosts",         "hostfile",  "ssh",        "export",      "config",
                                   "scheduler",     "nnodes",    "node-rank",  "master-addr", "master-port",
                                   "rdzv-endpoint", "rdzv-id",   "local-addr", "dry-run",     "lifeline",
                                   "token-file",    "tree-width"};

bool sets_a_flag(const std::string& variable) {
  static const std::set<std::string> all = [] {
    std::set<std::string> names;
    for (const Flag& flag : flags()) {
      for (std::string& name : variables_of(flag)) names.insert(std::move(name));
    }
    return names;
  }();
  return all.contains(variable);
}

std::string hex(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%08llx", static_cast<unsigned long long>(number & 0xffffffffU));
  return text;
}

bool given(const Options& options, std::string_view flag) { return find(options.settings, flag) != nullptr; }

// The flags that are the same for all hosts.
Result<std::vector<std::string>> common_flags(const Options& options, const std::vector<HostEntry>& hosts,
                                              const RemoteFacts& facts) {
  std::vector<std::string> out;
  for (const auto& [name, setting] : options.settings) {
    if (std::find(not_passed_on.begin(), not_passed_on.end(), name) != not_passed_on.end()) continue;
    const bool is_switch = find_flag(name)->is_switch();
    if (is_switch && setting.value != "true") continue;
    out.push_back("--" + name + (is_switch ? "" : "=" + setting.value));
  }
  const Setting* nnodes = find(options.settings, "nnodes");
  out.push_back("--nnodes=" + (nnodes ? nnodes->value : std::to_string(hosts.size())));
  out.push_back("--rdzv-id=" + (options.job.id.empty() ? "hosts-" + hex(facts.random) : options.job.id));
  if (const Setting* endpoint = find(options.settings, "rdzv-endpoint")) {
    out.push_back("--rdzv-endpoint=" + endpoint->value);
    if (options.master_port) out.push_back("--master-port=" + std::to_string(*options.master_port));
    return out;
  }
  const std::string first = bare_host(hosts.front().name);
  const bool others_are_elsewhere = std::count(facts.here.begin(), facts.here.end(), false) > 0;
  if (!options.master_addr && is_loopback(first) && others_are_elsewhere) {
    return usage("the first host is node 0, but the other hosts cannot reach it as '" + first + "'", "",
                 "list it by a name that they can resolve, or give --master-addr");
  }
  out.push_back("--master-addr=" + options.master_addr.value_or(first));
  const bool port_is_named = options.master_port && *options.master_port != 0;
  out.push_back("--master-port=" +
                std::to_string(port_is_named ? *options.master_port : port_for(facts.random)));
  return out;
}

std::string fail_with(const std::string& sentence, int code) {
  return "{ printf '%s\\n' " + shell_quoted("dlaunch: " + sentence) + " >&2; exit " + std::to_string(code) +
         "; }\n";
}

}  // namespace

std::vector<std::string> command_to(const HostEntry& host, bool here, const std::vector<std::string>& ssh) {
  if (here) return {shell};
  std::vector<std::string> command = ssh;
  const std::string& program = ssh.front();
  if (program.substr(program.rfind('/') + 1) == "ssh") {
    // No prompts, no waiting for a silent host, no display, no terminal. The user's options come first, and
    // ssh uses the first of two values.
    for (const char* option : {"BatchMode=yes", "ConnectTimeout=30", "ServerAliveInterval=15",
                               "ServerAliveCountMax=3", "ForwardX11=no", "RequestTTY=no"}) {
      command.emplace_back("-o");
      command.emplace_back(option);
    }
  }
  command.push_back(host.name);
  command.emplace_back(shell);
  return command;
}

// In one pair of braces, so that a shell that reads only a part of the script does nothing.
std::string script_of(const RemoteFacts& facts, const EnvironmentMap& carried,
                      const std::vector<std::string>& line) {
  std::string text = "{\n";
  text += "cd " + shell_quoted(facts.folder) + " 2>/dev/null || " +
          fail_with("there is no directory " + facts.folder +
                        "; start dlaunch in one that every host has, on a shared file system for instance",
                    1);
  text += "unset DLAUNCH_HOSTS DLAUNCH_HOSTFILE DLAUNCH_SSH DLAUNCH_EXPORT\n";
  for (const auto& [name, value] : carried) text += "export " + name + "=" + shell_quoted(value) + "\n";
  text += "[ -x " + shell_quoted(facts.executable) + " ] || " +
          fail_with("there is no dlaunch at " + facts.executable +
                        "; install it on every host in the same place, or on a shared file system",
                    127);
  return text + "exec " + quoted_line(line) + "\n}\n";
}

Result<std::vector<HostEntry>> chosen_hosts(const Options& options, std::vector<HostEntry> all) {
  const Setting* nnodes = find(options.settings, "nnodes");
  if (!nnodes) return all;
  const auto wanted = static_cast<std::size_t>(options.job.nnodes);
  if (wanted > all.size()) {
    return usage(nnodes->from + "=" + nnodes->value + ", but " + std::to_string(all.size()) +
                     (all.size() == 1 ? " host is" : " hosts are") + " named",
                 "", "name more hosts, or leave " + nnodes->from + " out");
  }
  all.resize(wanted);
  return all;
}

EnvironmentMap carried_environment(const Options& options, const EnvironmentMap& environment) {
  EnvironmentMap out;
  for (const auto& variable : environment) {
    const std::string& name = variable.first;
    const bool by_name = std::find(carried_names.begin(), carried_names.end(), name) != carried_names.end();
    const bool by_prefix = std::any_of(carried_prefixes.begin(), carried_prefixes.end(),
                                       [&](const char* prefix) { return name.starts_with(prefix); });
    // The variable of a flag is not carried, since the flag itself is passed on.
    if (by_name || (by_prefix && !sets_a_flag(name))) out.insert(variable);
  }
  for (const std::string& one : options.exports) {
    const std::size_t equals = one.find('=');
    const std::string name = one.substr(0, equals);
    const auto found = environment.find(name);
    if (equals != std::string::npos) {
      out[name] = one.substr(equals + 1);
    } else if (found != environment.end()) {
      out[name] = found->second;
    }
  }
  return out;
}

Result<RemotePlan> make_remote_plan(const Options& options, const std::vector<HostEntry>& hosts,
                                    const RemoteFacts& facts) {
  auto common = common_flags(options, hosts, facts);
  if (!common) return std::move(common).error();
  const EnvironmentMap carried = carried_environment(options, facts.environment);

  RemotePlan plan;
  plan.key = facts.terms.key;
  if (!options.secret.empty())
    plan.secret_line = "export DLAUNCH_TOKEN=" + shell_quoted(options.secret) + "\n";
  plan.fixed_size = options.job.min_nodes == options.job.nnodes;
  plan.job = options.job;
  if (plan.job.id.empty()) plan.job.id = "hosts-" + hex(facts.random);
  plan.job.nnodes = static_cast<int>(hosts.size());
  // Node 0 ends the job and must be reached by nothing but this machine. A job that continues without a host
  // must not lose those that it has started.
  std::vector<bool> from_here = facts.here;
  from_here.front() = true;
  const std::vector<int> starters = start_tree(from_here, plan.fixed_size ? options.tree_width : 0);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<std::string> line{facts.executable, "--lifeline=" + to_text(facts.terms)};
    line.insert(line.end(), common->begin(), common->end());
    line.push_back("--node-rank=" + std::to_string(i));
    line.push_back("--local-addr=" + bare_host(hosts[i].name));
    if (hosts[i].slots > 0 && !given(options, "nproc-per-node"))
      line.push_back("--nproc-per-node=" + std::to_string(hosts[i].slots));
    line.emplace_back("--");
    line.insert(line.end(), options.program.begin(), options.program.end());
    const bool here = facts.here[i];
    plan.hosts.push_back({bare_host(hosts[i].name),
                          hosts[i].name,
                          here,
                          command_to(hosts[i], here, options.ssh),
                          script_of(facts, carried, line),
                          {line.begin() + 1, line.end()},
                          starters[i]});
  }
  const std::string relay_script =
      script_of(facts, carried, {facts.executable, "--relay=" + facts.terms.key});
  for (const int starter : starters) {
    if (starter != started_from_here)
      plan.hosts[static_cast<std::size_t>(starter)].relay_script = relay_script;
  }
  return plan;
}

std::string describe(const RemoteHost& host, int node) {
  std::string out =
      "node " + std::to_string(node) + ", " + host.name + (host.here ? " (this machine)" : "") +
      (host.starter == started_from_here ? "" : ", started by node " + std::to_string(host.starter)) + ":\n";
  out += "  command: " + quoted_line(host.command) + "\n  its standard input:\n";
  for (std::size_t at = 0; at < host.script.size();) {
    const std::size_t end = std::min(host.script.find('\n', at), host.script.size());
    out += "    " + host.script.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

}  // namespace dlaunch::launcher
