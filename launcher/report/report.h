// The report printed when the job has ended: short, for people.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/model/job.h"
#include "agent/model/job_times.h"
#include "agent/output/dropped.h"

namespace dlaunch::launcher {

// The output that the readers of this dlaunch's own stdout and stderr did not take.
struct DroppedOutput {
  agent::Dropped out;
  agent::Dropped err;
};

// What happened to the job, as far as this node knows. All fields except `node`, the times and the last three
// are the same on all nodes.
struct JobReport {
  agent::JobSpec job;
  agent::NodeSpec node;
  agent::World world;  // the last; without members if the job did not start
  agent::Outcome outcome;
  std::int64_t began_unix_ms = 0;
  std::int64_t ended_unix_ms = 0;
  std::string log_dir;          // empty: none
  std::string error_file;       // the cause's, if it is kept on this node; else empty
  std::string flight_folder{};  // of PyTorch's flight records of this node; empty: there are none
  DroppedOutput dropped;
  std::optional<agent::JobTimes> times{};  // of this node's ranks; none: nothing was started
  bool shows_last_lines = false;           // this node's terminal already shows the cause's last lines
};

// Where a worker's error file (TORCHELASTIC_ERROR_FILE) is kept on its host: beside its log file. Empty: it
// wrote none with a content, or it has no log file.
std::string kept_error_file(const agent::Failure& failure);

// Paragraphs; none if there is nothing to report. The last is the summary, one line: what failed, where and
// why, and the number of restarts. If something can be tried, a second line follows in it: "  try: ...". This
// line and the paragraphs before (the cause's last lines, other failures, the restarts) are not printed by
// every node, but only by node 0 and by the node of the cause; the line also by nodes that have lost node 0.
std::vector<std::string> end_report(const JobReport& report);

// The summary without its second line.
std::string first_line_of(const std::string& summary);
// What its second line suggests; empty: it has none.
std::string remedy_in(const std::string& summary);

}  // namespace dlaunch::launcher
