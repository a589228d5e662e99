// At which of the job's endpoints this agent serves the coordinator and the store, and where it is probed.
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
  std::optional<std::size_t> endpoint;  // its number; none: others serve
  bool is_reachable = false;            // from other machines: it listens at more than loopback addresses
};

// Listens at the endpoint that is this node's, if one is. If the plan left the port open, it is filled in.
Result<Served> serve_endpoint(StoreServer& server, JobPlan& plan);

// The names under which other machines may ask this node's pages (store/server/http_access.h).
HttpRules http_rules_of(const JobPlan& plan, const std::string& secret);

// What it means that the job has no secret, and what to do, if others reach its port; empty: nothing.
std::string open_port_notice(const Served& served, const JobPlan& plan, const std::string& secret);

// Where a prober of this node is told that its agent lives: /healthz, on all interfaces, and nothing else.
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

  // At the port that `text` names; `from` is where the text came from.
  Result<void> open(const std::string& from, const std::string& text);

 private:
  Network& network_;
  RejectionLog rejections_;
  ProtocolMux mux_;
  ListenerId listener_;
};

}  // namespace dlaunch::launcher
