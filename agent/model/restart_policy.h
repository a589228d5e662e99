// Whether a job whose round failed goes on, when, and with whom: decided from the ledger of what happened
// before. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// A round that lasted for less, and failed, failed quickly: what failed is likely to do so again.
inline constexpr Duration quick_failure = std::chrono::seconds(10);

struct RestartDecision {
  bool restarts = true;
  std::string why_not{};  // where not though some are left
  Duration delay{};       // before it
};

// `next` is what has just happened, as it will stand in the ledger; `used` are the restarts before it.
RestartDecision decide_restart(const RestartPolicy& policy, int max_restarts, int used,
                               const std::vector<Restart>& history, const Restart& next);

// How often the cause was on this host.
int failures_of(const std::string& host, const std::vector<Restart>& history);

// Forgets the oldest where there are too many.
void remember(std::vector<Restart>& history, Restart entry);

}  // namespace dlaunch::agent
