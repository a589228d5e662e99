// A timeline in Chrome's trace event format: a JSON array of complete events ("ph": "X"), and of a "B" for
// each operation that has not ended. Times are microseconds since 1970 by the job's clock, if dlaunch passed
// it on (DLAUNCH_CLOCK), so that the files of several hosts can be put together; otherwise by this host's.
// pid is the rank in the default group, one tid per group, and one or more per worker that is called or
// calls. An arrow ("s" and "f") leads from each remote call to its run in the other worker.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "dlaunch/profiling.h"

namespace dlaunch::internal {

// Joins an operation of one rank to one of another: the end of an arrow, at the operation's begin.
struct TraceArrow {
  std::string id;  // the same at both ends, unlike all others
  bool starts = true;
};

// The file is complete JSON after each call: also after kill -9, and a hang is visible in it. Used by one
// thread at a time.
class TraceFile {
 public:
  // What the times are measured by.
  struct ClockBase {
    std::int64_t unix_minus_steady_ns = 0;
    std::string about;  // with the error; empty: it is this host's own clock
  };
  // `variable`: the value of DLAUNCH_CLOCK. One that is not of its form counts as unset.
  static ClockBase clock_base(const std::optional<std::string>& variable);

  explicit TraceFile(const std::string& path);  // throws DistError
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `job_rank`: of the process in the default group. `arrow`: of a remote call, whose row has the name that
  // the event gives as its group; none: it is another operation.
  void begin(const ProfilingEvent& event, int job_rank, const TraceArrow* arrow = nullptr);
  // Also for an operation that had begun before this file. `began_ns`: when it began.
  void end(const ProfilingEvent& event, int job_rank, std::int64_t began_ns,
           const TraceArrow* arrow = nullptr);

 private:
  // "pid" and "tid"; names both the first time.
  std::string place_of(const ProfilingEvent& event, int job_rank, bool is_call);
  void add(const std::string& entry);
  void write();
  // Since 1970, in microseconds, of a time of the steady clock.
  [[nodiscard]] std::string when(std::int64_t steady) const;

  const int fd_;
  const ClockBase clock_;
  std::int64_t written_ = 0;  // bytes that do not change any more
  std::int64_t length_ = 0;   // of the file
  std::string entries_;       // to be written behind them
  bool empty_ = true;
  std::map<std::uint64_t, std::string> open_;        // by the operation's number; written at the end
  std::map<std::pair<int, std::string>, int> rows_;  // by rank and group
  std::set<int> named_;                              // ranks
};

}  // namespace dlaunch::internal
