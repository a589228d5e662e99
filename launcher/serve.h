// At which of the job's endpoints this agent serves the coordinator and the store, and where it is probed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "launcher/plan.h"
#include "store/base/io.h"
#include "store/base/result.h"
#include "store/front_door.h"
#include "store/server.h"

namespace dlaunch::launcher {

// Listens there; the number of the endpoint, or none where others serve. Where the plan left the port open,
// it is filled in.
Result<std::optional<std::size_t>> serve_endpoint(StoreServer& server, JobPlan& plan);

// Where a prober of this node is told that its agent lives: /healthz, on all interfaces, and nothing else.
class HealthDoor {
 public:
  // REQUIRES: `network` outlives it.
  HealthDoor(Network& network, Report report)
      : network_(network),
        strangers_(std::move(report)),
        door_(network, strangers_, nullptr, nullptr, nullptr) {}
  ~HealthDoor() { network_.unlisten(listener_); }
  HealthDoor(const HealthDoor&) = delete;
  HealthDoor& operator=(const HealthDoor&) = delete;

  // At the port that `text` names; `from` is where the text came from.
  Result<void> open(const std::string& from, const std::string& text);

 private:
  Network& network_;
  StrangerReport strangers_;
  FrontDoor door_;
  ListenerId listener_;
};

}  // namespace dlaunch::launcher
