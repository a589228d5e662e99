#include "launcher/options/check_combinations.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace dlaunch::launcher {
namespace {

bool names_hosts(const Options& options) { return !options.hosts.empty() || !options.hostfile.empty(); }

void check_exclusive(SettingsReader& in, std::string_view one, std::string_view other) {
  const auto is_given = [&](std::string_view flag) {
    const Setting* setting = in.given(flag);
    return setting && setting->value != "false" && setting->value != "none";
  };
  if (is_given(one) && is_given(other))
    in.fail(usage("--" + std::string(one) + " and --" + std::string(other) + " exclude each other"));
}

void check_endpoint_and_address(SettingsReader& in, Options& out) {
  const bool differ =
      !out.endpoints.empty() && out.master_addr && out.endpoints.front().host != *out.master_addr;
  if (!differ) return;
  out.warnings.push_back(as_given(*in.given("rdzv-endpoint")) + " takes precedence over " +
                         as_given(*in.given("master-addr")));
}

void check_node_rank(SettingsReader& in, const Options& out) {
  // With named hosts, check_hosts() reports --node-rank itself.
  const bool hosts_are_named = in.text("hosts") || in.text("hostfile");
  if (!out.node_rank || *out.node_rank < out.job.nnodes || hosts_are_named) return;
  in.fail(usage(as_given(*in.given("node-rank")) + " is outside --nnodes=" + std::to_string(out.job.nnodes),
                "",
                out.job.nnodes == 1 ? "give the number of nodes with --nnodes"
                                    : "node ranks go from 0 to " + std::to_string(out.job.nnodes - 1)));
}

void check_majority(Options& out) {
  const int all = out.job.nnodes + out.job.spares;
  const bool may_move = out.backend == Options::Backend::c10d && out.endpoints.size() > 1;
  if (!may_move || out.job.min_nodes > all / 2) return;
  out.warnings.push_back("the job runs only while " + std::to_string(all / 2 + 1) + " of " +
                         std::to_string(all) +
                         " nodes are there, even if --nnodes allows fewer: with several endpoints, only a "
                         "majority knows that no "
                         "other part of the job is running");
}

void check_port_is_named(SettingsReader& in, const Options& out) {
  const bool named = !out.endpoints.empty() && out.endpoints.front().port;
  const bool endpoint_without =
      std::any_of(out.endpoints.begin(), out.endpoints.end(), [](const Endpoint& e) { return e.port == 0; });
  if (out.job.nnodes + out.job.spares == 1 || !(endpoint_without || (!named && out.master_port == 0))) return;
  const Setting& setting = *in.given(endpoint_without ? "rdzv-endpoint" : "master-port");
  in.fail(usage(as_given(setting) + ": a job of several nodes needs a fixed port", "", "name one"));
}

void check_hosts(SettingsReader& in, const Options& out) {
  if (out.lifeline || !names_hosts(out)) return;
  if (!out.hosts.empty() && !out.hostfile.empty()) {
    in.fail(usage(
        as_given(*in.given("hosts")) + " and " + as_given(*in.given("hostfile")) + " exclude each other", "",
        "give one of them"));
  }
  const Setting& hosts = *in.given(out.hosts.empty() ? "hostfile" : "hosts");
  for (const char* flag : {"node-rank", "local-addr", "standalone"}) {
    const Setting* other = in.given(flag);
    if (!other || other->value == "false") continue;
    in.fail(usage(as_given(hosts) + " and " + as_given(*other) + " exclude each other", "",
                  "start dlaunch once: it gives each named host its rank and name"));
  }
}

}  // namespace

void check_combinations(SettingsReader& in, Options& out) {
  check_endpoint_and_address(in, out);
  check_node_rank(in, out);
  check_majority(out);
  check_port_is_named(in, out);
  check_hosts(in, out);
  check_exclusive(in, "module", "no-python");
  check_exclusive(in, "module", "run-path");
  check_exclusive(in, "bind", "numa-binding");
}

}  // namespace dlaunch::launcher
