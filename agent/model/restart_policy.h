// Decides from the restart history if a job is restarted after a failed round, when, and with which hosts.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// A failure of a round that lasted less than this is quick: the next round is likely to fail, too.
inline constexpr Duration quick_failure = std::chrono::seconds(10);

struct RestartDecision {
  bool restarts = true;
  std::string why_not{};  // why there is no restart though some are left
  Duration delay{};       // before the restart
};

// `next` is the history entry of the failure that has just happened; `used` counts the restarts before it.
RestartDecision decide_restart(const RestartPolicy& policy, int max_restarts, int used,
                               const std::vector<Restart>& history, const Restart& next);

// The number of restarts whose cause was on this host.
int failures_of(const std::string& host, const std::vector<Restart>& history);

// Appends the entry; drops the oldest if there are too many.
void remember(std::vector<Restart>& history, Restart entry);

}  // namespace dlaunch::agent
