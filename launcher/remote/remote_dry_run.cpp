#include "launcher/remote/remote_dry_run.h"

#include <optional>
#include <utility>
#include <vector>

#include "launcher/flags/shell_words.h"
#include "launcher/options/dry_run.h"

namespace dlaunch::launcher {
namespace {

std::string indented(const std::string& text, const char* by) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out.append(by).append(text, at, end - at).append("\n");
    at = end + 1;
  }
  return out;
}

// With --lifeline, dlaunch reads only its command line, so the host's dlaunch will get the same options.
Result<Options> options_of(const RemoteHost& host) {
  auto parsed = parse_options(host.arguments, {});
  if (!parsed) return std::move(parsed).error();
  return std::get<Options>(std::move(*parsed));
}

bool decides_itself(const RemoteHost& host, const Options& options) {
  return !host.here && options.slots_kind != Options::Slots::number;
}

// By node; none: unknown until the hosts have counted their workers.
struct Ranks {
  std::vector<std::optional<int>> first;
  std::optional<int> in_all = 0;
};

std::string workers_there(const Options& options) {
  const Setting* setting = find(options.settings, "nproc-per-node");
  return "workers: as many as that host counts (" + setting->from + "=" + setting->value +
         "); the ranks from here on depend on it\n";
}

}  // namespace

Result<std::string> dry_run_on_hosts(const RemotePlan& plan, const EnvironmentMap& here,
                                     const EnvironmentMap& carried, const FactsOf& facts) {
  std::vector<Options> options;
  std::vector<JobPlan> plans;
  Ranks ranks;
  for (const RemoteHost& host : plan.hosts) {
    auto own = options_of(host);
    if (!own) return std::move(own).error();
    MachineFacts machine = facts(*own, host.here);
    Options askable = *own;
    if (!host.here) askable.bind = Bind::none;
    if (decides_itself(host, *own)) askable.slots_kind = Options::Slots::number;
    auto node = make_plan(askable, machine);
    if (!node) return std::move(node).error();
    ranks.first.push_back(ranks.in_all);
    if (decides_itself(host, *own)) ranks.in_all.reset();
    if (ranks.in_all) *ranks.in_all += node->node.slots;
    options.push_back(std::move(*own));
    plans.push_back(std::move(*node));
  }

  std::string out = "job " + shell_quoted(plan.job.id) + ": " + std::to_string(plan.hosts.size()) +
                    (plan.hosts.size() == 1 ? " host\n" : " hosts\n");
  if (ranks.in_all && !plan.fixed_size) out += "the ranks assume that all hosts join\n";
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const RemoteHost& host = plan.hosts[i];
    out += describe(host, static_cast<int>(i));
    if (decides_itself(host, options[i])) {
      out += indented(workers_there(options[i]), "  ");
      continue;
    }
    const NodePlace place{ranks.first[i], ranks.in_all, !host.here};
    if (!host.here)
      out += "  not known here: its other variables, its CPUs and GPUs, and whether it has the program\n";
    out += indented(dry_run(options[i], plans[i], host.here ? here : carried, place), "  ");
  }
  return out;
}

}  // namespace dlaunch::launcher
