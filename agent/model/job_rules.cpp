#include "agent/model/job_rules.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

namespace dlaunch::agent {
namespace {

std::string in_seconds(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", to_seconds(duration));
  return text;
}

std::string in_list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text.append(text.empty() ? "" : ",").append(std::to_string(number));
  return text.empty() ? "none" : text;
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

// One line of each, the first that differ; empty: the other text has more lines.
struct Difference {
  std::string_view ours;
  std::string_view theirs;
};

std::optional<Difference> first_difference(std::string_view ours, std::string_view theirs) {
  while (!ours.empty() || !theirs.empty()) {
    const Difference lines{first_line(ours), first_line(theirs)};
    if (lines.ours != lines.theirs) return lines;
    ours.remove_prefix(std::min(ours.size(), lines.ours.size() + 1));
    theirs.remove_prefix(std::min(theirs.size(), lines.theirs.size() + 1));
  }
  return std::nullopt;
}

// "with --nnodes=2"; "without --restart-limit" if it has no value there.
std::string option(std::string_view rule) {
  const std::size_t equals = rule.find('=');
  const std::string_view value = equals == std::string_view::npos ? "" : rule.substr(equals + 1);
  if (value == "none" || value == "one" || value == "false")
    return "without " + std::string(rule.substr(0, equals)) + (value == "one" ? "'s list" : "");
  return "with " + std::string(rule);
}

}  // namespace

std::string rules_of(const JobSpec& job) {
  const RestartPolicy& policy = job.policy;
  std::string text;
  const auto rule = [&](const char* flag, const std::string& value) {
    text.append("--").append(flag).append("=").append(value).append("\n");
  };
  const std::string most = std::to_string(job.nnodes);
  rule("nnodes",
       job.required_nodes() == job.nnodes ? most : std::to_string(job.required_nodes()) + ":" + most);
  rule("max-restarts", std::to_string(job.max_restarts));
  rule("spares", std::to_string(job.spares));
  rule("node-timeout", in_seconds(job.node_timeout));
  std::string graces = in_seconds(job.stop_timeout.usual);
  for (const auto& [signo, grace] : job.stop_timeout.after)
    graces.append(",").append(signal_name(signo)).append("@").append(in_seconds(grace));
  rule("stop-timeout", graces);
  rule("hang-timeout", in_seconds(job.hang_timeout));
  rule("hang-note", in_seconds(job.hang_note));
  rule("accelerate", job.accelerate.empty() ? "none" : job.accelerate);
  rule("mpi", job.mpi == MpiStart::pmix ? "pmix" : job.mpi == MpiStart::pmi ? "pmi" : "none");
  rule("count-membership-changes", job.counts_membership ? "true" : "false");
  rule("restart-limit",
       policy.burst == 0 ? "none" : std::to_string(policy.burst) + "/" + in_seconds(policy.window));
  rule("restart-backoff", in_seconds(policy.first_delay) + "," + in_seconds(policy.longest_delay));
  rule("no-restart-on", in_list(policy.final_codes));
  rule("startup-grace", in_seconds(policy.startup_grace));
  rule("exclude-after", std::to_string(policy.exclude_after));
  // The order counts: all nodes that find no leader wait at the same endpoint.
  std::string endpoints;
  if (job.may_move() && !job.elected) {
    for (const Address& endpoint : job.endpoints)
      endpoints.append(endpoints.empty() ? "" : ",").append(to_string(endpoint));
  }
  rule("rdzv-endpoint", endpoints.empty() ? "one" : endpoints);
  return text;
}

std::string difference(const std::string& ours, const std::string& theirs) {
  const auto different = first_difference(ours, theirs);
  const auto shown = [](std::string_view rule) { return rule.empty() ? "nothing" : std::string(rule); };
  return different ? "this job has " + shown(different->ours) + ", not " + shown(different->theirs) : "";
}

std::string remedy_of_difference(const std::string& ours, const std::string& theirs,
                                 const std::string& host) {
  const auto different = first_difference(ours, theirs);
  if (!different) return "";
  if (different->ours.empty() || different->theirs.empty()) return "use one version of dlaunch on all nodes";
  return "start host " + host + " " + option(different->ours) + ", or all others " +
         option(different->theirs);
}

}  // namespace dlaunch::agent
