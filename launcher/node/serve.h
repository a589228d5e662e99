// Where this agent serves the coordinator and the store, and where health checks reach it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "launcher/machine/process_limits.h"
#include "launcher/options/plan.h"
#include "store/base/io.h"
#include "store/base/result.h"
#include "store/server/protocol_mux.h"
#include "store/server/server.h"

namespace dlaunch::launcher {

struct Served {
  std::optional<std::size_t> endpoint;  // its number; none: other nodes serve
  bool is_reachable = false;            // from other machines: it listens at more than loopback addresses
};

// Listens at the endpoint that is this node's, if one is. If the plan left the port open, it is filled in.
Result<Served> serve_endpoint(StoreServer& server, JobPlan& plan);

// The names by which other machines may request this node's pages (store/server/http_access.h).
HttpRules http_rules_of(const JobPlan& plan, const std::string& secret);

// If other machines reach the port of a job without a secret: what that means, and the remedy. Else empty.
std::string open_port_notice(const Served& served, const JobPlan& plan, const std::string& secret);

// Serves /healthz on all interfaces, and nothing else: a health check learns that this node's agent lives.
class HealthEndpoint {
 public:
  // REQUIRES: network, timers and clock outlive it.
  HealthEndpoint(Network& network, Timers& timers, Clock& clock, Report report)
      : network_(network),
        rejections_(std::move(report)),
        mux_(network, timers, clock, rejections_, nullptr, nullptr, nullptr, {}, {}, port_limits(0, 0)) {}
  ~HealthEndpoint() { network_.unlisten(listener_); }
  HealthEndpoint(const HealthEndpoint&) = delete;
  HealthEndpoint& operator=(const HealthEndpoint&) = delete;

  // Listens on the port that `text` names; `from` is the source of the text.
  Result<void> open(const std::string& from, const std::string& text);

 private:
  Network& network_;
  RejectionLog rejections_;
  ProtocolMux mux_;
  ListenerId listener_;
};

}  // namespace dlaunch::launcher
