// How a job has ended. If the agents elect their leader (etcd), the last leader leaves this there, for nodes
// that were away at the end. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/model/job.h"
#include "store/base/result.h"

namespace dlaunch::agent {

struct JobEnding {
  // How long etcd keeps it.
  static constexpr std::chrono::hours kept{1};

  // The highest fencing token that the last leader knew: the job has no world above it. An earlier job of the
  // same name has lower ones.
  std::uint64_t fencing = 0;
  Outcome outcome;

  bool operator==(const JobEnding&) const = default;
};

std::string to_text(const JobEnding& ending);
// An error if the text is something else, or comes from another version of dlaunch.
Result<JobEnding> parse_job_ending(std::string_view text);

}  // namespace dlaunch::agent
