// What is printed when the job has ended: for a person who has no time.
#pragma once

#include <string>
#include <vector>

#include "agent/job.h"

namespace dlaunch::launcher {

// What happened to the job, as far as this node knows; everything but `node` is the same on all nodes.
struct JobReport {
  agent::JobSpec job;
  agent::NodeSpec node;
  agent::World world;  // the last; without members where the job did not begin
  agent::Outcome outcome;
  std::int64_t began_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;
  std::string log_dir;  // empty: none
};

// Paragraphs; none where there is nothing to say. The last is one line: what failed, where and why, and how
// often was restarted. What comes before it (the cause's last words, who else fell, the restarts) is said
// once per job and not by each of its nodes: where the cause was, and on node 0.
std::vector<std::string> end_report(const JobReport& report);

}  // namespace dlaunch::launcher
