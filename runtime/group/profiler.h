// Passes operations to the profiling callback and the trace. Costs one relaxed load if there is neither.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "dlaunch/profiling.h"
#include "runtime/group/group_impl.h"
#include "runtime/record/trace_file.h"

namespace dlaunch::internal {

class Profiler {
 public:
  // A number for end(); 0 if there is no listener.
  std::uint64_t begin(const char* name, const GroupDescription& group, std::uint64_t sequence,
                      std::uint64_t bytes) {
    return listening_.load(std::memory_order_relaxed) ? begin_heard(name, group, sequence, bytes) : 0;
  }
  void end(std::uint64_t id, bool success) {
    if (id != 0) end_heard(id, success);
  }

  void set_callback(ProfilingCallback callback);
  void start_trace(const std::string& path);
  void stop_trace();

 private:
  struct Open {
    std::string name;
    std::string group;
    ProfilingEvent event;  // its views: into the two above
    int job_rank = 0;
  };

  std::uint64_t begin_heard(const char* name, const GroupDescription& group, std::uint64_t sequence,
                            std::uint64_t bytes);
  void end_heard(std::uint64_t id, bool success);

  std::atomic<bool> listening_ = false;
  std::mutex mutex_;
  // protected by mutex_
  std::shared_ptr<const ProfilingCallback> callback_;
  std::unique_ptr<TraceFile> trace_;
  std::map<std::uint64_t, std::unique_ptr<Open>> open_;
  std::uint64_t last_id_ = 0;
};

Profiler& profiler();

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
