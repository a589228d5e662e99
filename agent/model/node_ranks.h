// What the ranks of one node do now and did in the last minutes, as the page of the job's port shows it.
// Plain values, their JSON, and how they are made from looks. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job_status.h"
#include "agent/model/job_times.h"
#include "agent/model/rank_history.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct RankView {
  int rank = 0;
  std::int64_t pid = 0;      // 0: not started yet
  std::string state;         // starting, running, stopped, ended
  std::string samples;       // as in RankHistory
  double rate = 0;           // operations a second
  std::uint64_t memory = 0;  // resident bytes
  std::string doing;         // its main thread, as in RankProgress::state
  // "all_reduce #12 of group default": the oldest that it is in, or else the last that it was in; empty:
  // none.
  std::string operation;
  bool inside = false;
  double operation_s = 0;  // since when, or since when no longer
  std::uint64_t came_last = 0;
  double late_s = 0;
  std::string last_output;
  std::string last_lines;  // of stderr; only of the rank that was asked for
  // Of this round, in seconds, by Spent.
  std::vector<double> times;

  bool operator==(const RankView&) const = default;
};

// In seconds, as RestartTimes.
struct RestartView {
  double detect = 0;
  double stop = 0;
  double decide = 0;
  double start = 0;
  double first_operation = 0;

  bool operator==(const RestartView&) const = default;
};

struct NodeRanks {
  // More ranks of a node are left out.
  static constexpr std::size_t most_ranks = 1024;

  std::string host;
  int node_rank = -1;
  int round = -1;
  double period_s = 0;                // between two samples
  std::vector<std::string> findings;  // which rank waits for which, among these (agent/model/diagnosis.h)
  std::vector<double> times;          // of its ranks since the start, in seconds, by TimeKind
  double goodput = 0;                 // TimeSums::goodput()
  std::vector<RestartView> restarts;  // the oldest first
  std::vector<RankView> ranks;

  bool operator==(const NodeRanks&) const = default;
};

// Of the workers in `status`, as of the last look.
NodeRanks node_ranks(const JobStatus& status, const RankHistory& history);
void add_times(NodeRanks& node, const JobTimes& times);

// An object with the letters of the samples, and the nodes. One line.
std::string to_json(const std::vector<NodeRanks>& nodes);
// Missing fields keep their defaults. Returns an error if the text is not such an object.
Result<std::vector<NodeRanks>> node_ranks_from_json(std::string_view text);

// "waiting", "in an operation": a kind of time, for users.
std::string_view describe(Spent kind);
std::string_view describe(TimeKind kind);

}  // namespace dlaunch::agent
