#include "agent/model/job_rules.h"

#include <algorithm>
#include <cstdio>

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
  std::string_view mine = ours;
  std::string_view other = theirs;
  while (!mine.empty() || !other.empty()) {
    const std::string_view a = first_line(mine);
    const std::string_view b = first_line(other);
    const auto shown = [](std::string_view rule) { return rule.empty() ? "nothing" : std::string(rule); };
    if (a != b) return "this job has " + shown(a) + ", not " + shown(b);
    mine.remove_prefix(std::min(mine.size(), a.size() + 1));
    other.remove_prefix(std::min(other.size(), b.size() + 1));
  }
  return "";
}

}  // namespace dlaunch::agent
