#include "launcher/serve.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

#include "launcher/own_host.h"
#include "launcher/values.h"
#include "store/base/log.h"

namespace dlaunch::launcher {
namespace {

bool is_loopback(const Address& address) { return address.host.starts_with("127.") || address.host == "::1"; }

bool is_alone(const agent::JobSpec& job) { return job.nnodes + job.spares == 1; }

// A name that this machine knows only as loopback (Debian's /etc/hosts) is no address where other nodes find
// it: then all interfaces are bound.
Result<Network::Listening> listen_at(StoreServer& server, const Address& address, bool alone) {
  auto listening = server.listen(address);
  const bool loopback_meant = is_loopback(address) || address.host == "localhost";
  if (!listening || alone || loopback_meant ||
      !std::all_of(listening->addresses.begin(), listening->addresses.end(), is_loopback))
    return listening;
  server.close();
  log::info(address.host + " is a loopback address here: the store listens on all interfaces");
  return server.listen({"*", address.port});
}

// What the nodes were told is this one's, though this machine does not know the name or address as its own (a
// service address, NAT).
Result<Network::Listening> listen_everywhere(StoreServer& server, const Address& address) {
  log::info(address.host + " is not an address of this machine: the store listens on all interfaces");
  return server.listen({"*", address.port});
}

// At this machine's address, as etcd is reached from it, where nobody said another.
Result<std::optional<std::size_t>> serve_anywhere(StoreServer& server, JobPlan& plan) {
  if (plan.own.host.empty()) {
    auto found = own_address_towards(plan.job.endpoints);
    if (!found) return std::move(found).error();
    plan.own.host = *found;
  }
  auto listening = server.listen(plan.own);
  if (!listening && listening.error().kind == ErrorKind::not_found)
    listening = server.listen({"*", plan.own.port});
  if (!listening) return std::move(listening).error().with_hint("choose a free port with --master-port");
  plan.own.port = listening->port;
  return std::optional<std::size_t>(0);
}

}  // namespace

Result<std::optional<std::size_t>> serve_endpoint(StoreServer& server, JobPlan& plan) {
  if (plan.serves == JobPlan::Serves::no) return std::optional<std::size_t>{};
  if (plan.serves == JobPlan::Serves::elected) return serve_anywhere(server, plan);
  agent::JobSpec& job = plan.job;
  const bool must = plan.serves == JobPlan::Serves::yes;
  std::optional<Error> failure;
  for (std::size_t i = 0; i < job.endpoints.size(); ++i) {
    auto listening = listen_at(server, job.endpoints[i], is_alone(job));
    const bool foreign = !listening && listening.error().kind == ErrorKind::not_found;
    if (foreign && must && job.endpoints.size() == 1 && !is_alone(job))
      listening = listen_everywhere(server, job.endpoints[i]);
    if (listening) {
      job.endpoints[i].port = listening->port;
      job.master = job.endpoints.front();
      log::debug("the store listens at " + to_string(job.endpoints[i]));
      return std::optional(i);
    }
    log::debug(listening.error().message());
    // In use: by another agent of the job on this machine, or the Join will tell.
    const bool others = foreign || listening.error().kind == ErrorKind::in_use;
    if (!failure && (must || !others)) failure = listening.error();
  }
  if (!failure) return std::optional<std::size_t>{};
  const ErrorKind kind = failure->kind;
  return std::move(*failure).with_hint(
      kind == ErrorKind::not_found ? plan.host_from + " must name an address of this machine"
      : kind == ErrorKind::timeout
          ? "this machine cannot look that name up; give its address with " + plan.host_from
          : "choose a free port with " + plan.port_from);
}

Result<void> HealthDoor::open(const std::string& from, const std::string& text) {
  const auto port = number(from, text, 1, 65535);
  if (!port) return port.error();
  auto listening = network_.listen({"*", static_cast<std::uint16_t>(*port)}, door_);
  if (!listening) return std::move(listening).error().with_hint("choose a free port with " + from);
  listener_ = listening->id;
  return {};
}

}  // namespace dlaunch::launcher
