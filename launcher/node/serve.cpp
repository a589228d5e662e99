#include "launcher/node/serve.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "launcher/flags/value_parsers.h"
#include "launcher/machine/port_owner.h"
#include "launcher/remote/local_host.h"
#include "launcher/scheduler/pod_name.h"
#include "store/base/address.h"
#include "store/base/header_text.h"
#include "store/base/log.h"

namespace dlaunch::launcher {
namespace {

bool is_alone(const agent::JobSpec& job) { return job.nnodes + job.spares == 1; }

// If this machine knows the name only as loopback (Debian's /etc/hosts), other nodes know it by another
// address: then the store listens on all interfaces.
Result<Network::Listening> listen_at(StoreServer& server, const Address& address, bool alone) {
  auto listening = server.listen(address);
  if (!listening || alone || is_loopback(address.host) || !are_loopback(listening->addresses))
    return listening;
  server.close();
  log::info(address.host + " is a loopback address here: the store listens on all interfaces");
  return server.listen({"*", address.port});
}

bool names_none_of_ours(const Error& error) {
  return error.kind == ErrorKind::not_found || error.kind == ErrorKind::foreign;
}

// The user says that the name or address is this node's, but this machine does not know it as its own (a
// service's address, NAT). An unknown name may be misspelt: then no node comes, so there is a warning.
Result<Network::Listening> listen_everywhere(StoreServer& server, const Address& address, const Error& why,
                                             const std::string& from) {
  if (why.kind == ErrorKind::not_found) {
    log::warning("the name " + address.host + " (" + from +
                 ") is not known on this machine: the store listens on all interfaces; if the other nodes do "
                 "not know it either, check its spelling, /etc/hosts and DNS");
  } else {
    log::info(address.host + " is not an address of this machine: the store listens on all interfaces");
  }
  return server.listen({"*", address.port});
}

// A pod is started before DNS has its name, and comes back with another address before DNS has that: its own
// /etc/hosts is right all the time.
Result<Network::Listening> listen_as_pod(StoreServer& server, const Address& address, const Error& why) {
  log::debug(why.message() + ": it is this pod's name, so the store listens on all interfaces");
  return server.listen({"*", address.port});
}

bool is_about_name(const Error& error) {
  return names_none_of_ours(error) || error.kind == ErrorKind::timeout;
}

std::string what_to_do(const Error& failure, const JobPlan& plan) {
  if (failure.kind == ErrorKind::foreign) return plan.host_from + " must name an address of this machine";
  if (failure.kind == ErrorKind::not_found)
    return "check its spelling, /etc/hosts and DNS, or give this machine's address with " + plan.host_from;
  if (failure.kind == ErrorKind::timeout)
    return "this machine cannot look that name up; give its address with " + plan.host_from;
  std::string choose = "choose a free port with " + plan.port_from;
  // As name_port_owner() names it.
  const bool is_dlaunch =
      failure.kind == ErrorKind::in_use && failure.why.find(" (dlaunch)") != std::string::npos;
  if (!is_dlaunch || is_alone(plan.job) || plan.rank_from.empty()) return choose;
  return "if that is node 0 of this job, start this node with another " + plan.rank_from + " than " +
         std::to_string(std::max(0, plan.node.node_rank)) + "; else " + choose;
}

// Unless the user named an address: at that from which this machine reaches etcd.
Result<Served> serve_anywhere(StoreServer& server, JobPlan& plan) {
  if (plan.own.host.empty()) {
    auto found = local_address_towards(plan.job.endpoints);
    if (!found) return std::move(found).error();
    plan.own.host = *found;
  }
  auto listening = server.listen(plan.own);
  if (!listening && names_none_of_ours(listening.error())) listening = server.listen({"*", plan.own.port});
  if (!listening)
    return name_port_owner(std::move(listening).error(), plan.own.port)
        .with_hint("choose a free port with --master-port");
  plan.own.port = listening->port;
  return Served{0, !are_loopback(listening->addresses)};
}

}  // namespace

Result<Served> serve_endpoint(StoreServer& server, JobPlan& plan) {
  if (plan.serves == JobPlan::Serves::no) return Served{};
  if (plan.serves == JobPlan::Serves::elected) return serve_anywhere(server, plan);
  agent::JobSpec& job = plan.job;
  const bool must = plan.serves == JobPlan::Serves::yes;
  std::optional<Error> failure;
  std::uint16_t failed_port = 0;
  for (std::size_t i = 0; i < job.endpoints.size(); ++i) {
    auto listening = listen_at(server, job.endpoints[i], is_alone(job));
    if (!listening && is_about_name(listening.error()) && names_pod(job.endpoints[i].host, plan.pod)) {
      const Error why = std::move(listening).error();
      listening = listen_as_pod(server, job.endpoints[i], why);
    }
    const bool foreign = !listening && names_none_of_ours(listening.error());
    if (foreign && must && job.endpoints.size() == 1 && !is_alone(job)) {
      const Error why = std::move(listening).error();
      listening = listen_everywhere(server, job.endpoints[i], why, plan.host_from);
    }
    if (listening) {
      job.endpoints[i].port = listening->port;
      job.master = job.endpoints.front();
      log::debug("the store listens at " + to_string(job.endpoints[i]));
      return Served{i, !are_loopback(listening->addresses)};
    }
    log::debug(listening.error().message());
    // If it is in use, then by another agent of this job on this machine; otherwise the Join reports it. A
    // pod knows that a name is not its own, also if DNS does not answer.
    const bool others = foreign || listening.error().kind == ErrorKind::in_use ||
                        (plan.pod.find('.') != std::string::npos && is_about_name(listening.error()));
    if (!failure && (must || !others)) {
      failure = listening.error();
      failed_port = job.endpoints[i].port;
    }
  }
  if (!failure) return Served{};
  Error named = name_port_owner(std::move(*failure), failed_port);
  std::string hint = what_to_do(named, plan);
  return std::move(named).with_hint(std::move(hint));
}

HttpRules http_rules_of(const JobPlan& plan, const std::string& secret) {
  HttpRules rules;
  rules.secret = secret;
  const auto add = [&rules](const std::string& name) {
    if (!name.empty()) rules.names.insert(lower_case(name));
  };
  for (const Address& endpoint : plan.job.endpoints) add(endpoint.host);
  add(plan.own.host);
  add(plan.node.host);
  return rules;
}

std::string open_port_notice(const Served& served, const JobPlan& plan, const std::string& secret) {
  if (!served.is_reachable || !secret.empty()) return "";
  const Address& at =
      plan.serves == JobPlan::Serves::elected ? plan.own : plan.job.endpoint(*served.endpoint);
  return "no secret: everybody who can connect to " + to_string(at) +
         " can read and change this job's store" + (is_alone(plan.job) ? "" : " and join the job") +
         "; set a secret with --token-file=FILE on every node";
}

Result<void> HealthEndpoint::open(const std::string& from, const std::string& text) {
  const auto port = number(from, text, 1, 65535);
  if (!port) return port.error();
  auto listening = network_.listen({"*", static_cast<std::uint16_t>(*port)}, mux_);
  if (!listening)
    return name_port_owner(std::move(listening).error(), static_cast<std::uint16_t>(*port))
        .with_hint("choose a free port with " + from);
  listener_ = listening->id;
  return {};
}

}  // namespace dlaunch::launcher
