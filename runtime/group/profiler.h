// Passes operations to the profiling callback and the trace. Costs one relaxed load if there is neither.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "dlaunch/profiling.h"
#include "runtime/group/group_description.h"
#include "runtime/record/trace_file.h"

namespace dlaunch::internal {

class Profiler {
 public:
  // A number for end(); 0 if there is no listener.
  std::uint64_t begin(const char* name, const GroupDescription& group, std::uint64_t sequence,
                      std::uint64_t bytes) {
    return is_on() ? begin_heard(name, group, sequence, bytes) : 0;
  }
  void end(std::uint64_t id, bool success) {
    if (id != 0) end_heard(id, success);
  }

  [[nodiscard]] bool is_on() const { return listening_.load(std::memory_order_relaxed); }
  // A remote call, at its caller or at its callee.
  struct Call {
    std::string_view function;
    std::string row;  // "calls to worker ps"
    int worker;       // id of this one
    int job_rank;
    std::uint64_t number;
    std::uint64_t bytes;
    TraceArrow arrow;
  };
  // As begin(). The row of a call that overlaps others has a number behind its name.
  std::uint64_t begin_call(const Call& call) { return is_on() ? begin_call_heard(call) : 0; }

  void set_callback(ProfilingCallback callback);
  void start_trace(const std::string& path);
  // The same, if this process has not started one to this file already.
  void start_trace_once(const std::string& path);
  void stop_trace();

 private:
  struct Open {
    std::string name;
    std::string group;
    ProfilingEvent event;  // its views: into the two above
    int job_rank = 0;
    std::optional<TraceArrow> arrow = {};  // none: it is no remote call
  };

  std::uint64_t begin_heard(const char* name, const GroupDescription& group, std::uint64_t sequence,
                            std::uint64_t bytes);
  std::uint64_t begin_call_heard(const Call& call);
  std::uint64_t begin_open(std::unique_ptr<Open> open);
  void end_heard(std::uint64_t id, bool success);

  std::atomic<bool> listening_ = false;
  std::mutex mutex_;
  // protected by mutex_
  std::shared_ptr<const ProfilingCallback> callback_;
  std::unique_ptr<TraceFile> trace_;
  std::string path_;               // of the last trace
  std::set<std::string> in_rows_;  // rows of remote calls under way
  std::map<std::uint64_t, std::unique_ptr<Open>> open_;
  std::uint64_t last_id_ = 0;
};

// The process's.
Profiler& profiler();

// Null before the first call of profiler().
inline constinit std::atomic<Profiler*> made_profiler = nullptr;
// The process's, if it has a listener; else null. Costs a load if there has never been one.
inline Profiler* listening_profiler() {
  Profiler* const made = made_profiler.load(std::memory_order_acquire);
  return made != nullptr && made->is_on() ? made : nullptr;
}

// An operation that ends with its call: as a failure, unless succeed() was called.
class ProfiledCall {
 public:
  ProfiledCall(const char* name, const GroupDescription& group, std::uint64_t bytes)
      : id_(profiler().begin(name, group, 0, bytes)) {}
  ~ProfiledCall() { profiler().end(id_, succeeded_); }
  ProfiledCall(const ProfiledCall&) = delete;
  ProfiledCall& operator=(const ProfiledCall&) = delete;

  void succeed() { succeeded_ = true; }

 private:
  const std::uint64_t id_;
  bool succeeded_ = false;
};

// The file of rank N's trace (DLAUNCH_TRACE): "a/b.json" -> "a/b.rankN.json".
std::string trace_path(const std::string& path, int rank);

}  // namespace dlaunch::internal
