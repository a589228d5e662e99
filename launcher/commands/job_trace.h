// A trace of a job's operations in Chrome's trace event format, which Perfetto shows too, from what
// `dlaunch dump --json` writes on each host of the job. Pure.
//
// Each rank is a process of the trace, and each of its groups a track; operations that overlap have tracks of
// their own. If a collective's operations on all ranks of its group are known, arrows lead from the rank that
// came last to those that waited for it. A remote call is an operation of its caller and one of its callee,
// with an arrow from one to the other. If all dumps know the job's shared clock, times are those of it, and
// the trace has the bound of their error; otherwise they are those of each host's clock.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model/shared_clock.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct TracedOperation {
  int rank = 0;                   // in the job
  int round = 0;                  // each has a world of its own
  std::int64_t began_ns = 0;      // since 1970, by its host's clock
  std::int64_t ended_ns = 0;      // 0: it has not
  std::int64_t to_shared_ns = 0;  // the shared clock minus the host's
  std::string group;
  std::string members;  // the group's ranks as a list: "[0, 1]"
  std::string backend;
  std::string name;           // "all_reduce", "send 1->2"
  std::int64_t sequence = 0;  // of the collectives, or of the messages of its group
  bool is_collective = false;
  std::string state;          // "completed", "started", "scheduled"; as in the flight recorder
  std::int64_t elements = 0;  // of the input, or else of the output
  std::string dtype;          // PyTorch's name; empty: it has none
  std::string host;
  // Of a remote call: the ids of both workers. -1: it is none.
  int caller = -1;
  int callee = -1;
  bool is_served = false;  // at the callee
};

struct TracedNode {
  std::string job;
  std::string host;
  agent::SharedClock clock;
  std::vector<TracedOperation> operations;
};

// Of one dump, which may be any bytes. `source`: its name, for the error.
Result<TracedNode> operations_in(std::string_view dump, const std::string& source);

// Several hosts' times can be compared: they are all of one clock. Also if there is only one host.
bool have_one_clock(const std::vector<TracedNode>& nodes);
// The largest error of the times, in nanoseconds. REQUIRES: have_one_clock(nodes).
std::int64_t clock_error(const std::vector<TracedNode>& nodes);

// In any order. An operation that is in several dumps counts once, as in the latest.
std::string to_trace(std::vector<TracedNode> nodes);

}  // namespace dlaunch::launcher
