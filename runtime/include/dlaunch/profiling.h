// Profiling of operations: a callback at the beginning and at the end of each, and a timeline file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

struct ProfilingEvent {
  enum class Kind : std::uint8_t { begin, end };
  Kind kind;
  std::uint64_t id;        // the same for begin and end of one operation; never twice in a process
  std::string_view name;   // "all_reduce", "send"; of a remote call the function's
  std::string_view group;  // the group's name; of a remote call "calls to worker ps", "calls of worker ps"
  int rank;                // of this process in the group; of a remote call this worker's id
  std::uint64_t sequence;  // of the operation among the group's collectives, or its messages; 0: not numbered
  std::uint64_t bytes;     // of this rank's data that take part
  std::int64_t time_ns;    // of std::chrono::steady_clock
  bool success;            // end only
};

// Called for each operation, from any thread, also by several at once; an asynchronous operation begins with
// its call and ends on the thread that completes it. Must be quick, not throw, and not call the library.
// None: profiling is off. Do not set it while operations run.
using ProfilingCallback = std::function<void(const ProfilingEvent&)>;
DLAUNCH_EXPORT void set_profiling_callback(ProfilingCallback callback);

// Starts to write operations to a file of Chrome's trace format (chrome://tracing, Perfetto): one process per
// rank, one row per group, times since 1970. The file is complete JSON at any time; a running operation is a
// "B" event in it. A remote call is an event of its caller and one of its callee, in rows of their own, with
// an arrow from one to the other. Throws DistError if the file cannot be written. stop_trace() ends the
// trace; so do the end of the default group and the end of the process by exit() or a return from main. The
// environment variable DLAUNCH_TRACE=FILE starts a trace with init_process_group, or with init_rpc; rank N
// writes to FILE with ".rankN" before its extension: trace.json, trace.rank0.json.
DLAUNCH_EXPORT void start_trace(const std::string& path);
DLAUNCH_EXPORT void stop_trace();

}  // namespace v1
}  // namespace dlaunch
