// What is printed when the job has ended: for a person who has no time.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job.h"
#include "agent/output/dropped.h"

namespace dlaunch::launcher {

// What the readers of this dlaunch's own stdout and stderr have not taken.
struct DroppedOutput {
  agent::Dropped out;
  agent::Dropped err;
};

// What happened to the job, as far as this node knows; everything but `node`, the times and the last three is
// the same on all nodes.
struct JobReport {
  agent::JobSpec job;
  agent::NodeSpec node;
  agent::World world;  // the last; without members where the job did not begin
  agent::Outcome outcome;
  std::int64_t began_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;
  std::string log_dir;     // empty: none
  std::string error_file;  // the cause's own, where it is kept on this node; empty: it is not
  DroppedOutput dropped;
  bool shows_last_lines = false;  // the cause's last lines stand on this node's terminal already
};

// Where a worker's own error file (TORCHELASTIC_ERROR_FILE) is kept, on its host: beside its log file. Empty:
// it left none that says anything, or it has no log file.
std::string kept_error_file(const agent::Failure& failure);

// Paragraphs; none where there is nothing to say. The last is one line: what failed, where and why, and how
// often was restarted. What comes before it (the cause's last words, who else fell, the restarts) is said
// once per job and not by each of its nodes: where the cause was, and on node 0.
std::vector<std::string> end_report(const JobReport& report);

}  // namespace dlaunch::launcher
