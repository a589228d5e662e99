// The status of one node's part of a job, as `dlaunch status` shows it. A plain value, and its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/shared_clock.h"
#include "store/base/result.h"

namespace dlaunch::agent {

struct WorkerStatus {
  int rank = 0;
  int local_rank = 0;
  std::int64_t pid = 0;         // 0: not started yet
  std::string state;            // starting, running, ended
  std::string last_output;      // the beginning of the last line it wrote
  std::uint64_t came_last = 0;  // collectives to which it came last (agent/model/stragglers.h)
  double late_s = 0;            // the time that the others waited for it alone in these

  bool operator==(const WorkerStatus&) const = default;
};

struct JobStatus {
  std::string job;         // its id
  std::string program;     // and its arguments, in one line
  std::string version;     // of dlaunch
  std::int64_t agent = 0;  // pid of this node's dlaunch
  std::string host;        // this node's
  int node_rank = 0;
  int nnodes = 0;
  std::string state;        // waiting, running, stopping, done, ending
  std::string waiting_for;  // what is missing; empty: nothing
  int round = 0;
  int world_size = 0;  // 0: no world has been formed yet
  int restarts_used = 0;
  int max_restarts = 0;
  double age_s = 0;                   // since this dlaunch began
  double state_age_s = 0;             // since the round began, or since the start
  std::string endpoint;               // where node 0 serves store and rendezvous
  std::string last_failure;           // a line; empty: none so far
  double unnoticed_s = 0;             // how long that failure had lasted before it was noticed
  std::string straggler;              // a sentence about the rank that costs the others much now; empty: none
  std::string log_dir;                // of this job; empty: it writes no log files
  std::string pages_dir;              // where its workers' pages are; empty: there are none
  std::int64_t steady_ns = 0;         // when this was so, by this host's steady clock
  SharedClock clock{};                // as known then
  std::vector<WorkerStatus> workers;  // this node's
  std::int64_t user = -1;             // its owner, reported by the kernel; not in the JSON

  bool operator==(const JobStatus&) const = default;
};

std::string to_json(const JobStatus& status);

// Missing fields keep their defaults. Returns an error if the text is not such an object.
Result<JobStatus> status_from_json(std::string_view text);

}  // namespace dlaunch::agent
