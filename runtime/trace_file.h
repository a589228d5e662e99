// A timeline in Chrome's trace event format: a JSON array of complete events ("ph": "X"), times in
// microseconds of the steady clock, pid = the rank in the default group's words, one tid per group.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "dlaunch/profiling.h"

namespace dlaunch {

// Written as it goes, so that a crash costs the last events only: readers accept a missing bracket at the
// end. Used by one thread at a time.
class TraceFile {
 public:
  explicit TraceFile(const std::string& path);  // throws DistError
  ~TraceFile();                                 // completes the array
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  // `event` is an end; `began_ns` when it began.
  void add(const ProfilingEvent& event, std::int64_t began_ns);

 private:
  void write(const std::string& entry);

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  bool empty_ = true;
  std::map<std::string, int, std::less<>> rows_;  // by group
};

}  // namespace dlaunch
