#include "runtime/group/profiler.h"

#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/process_end.h"

namespace dlaunch::internal {

Profiler& profiler() {
  static Profiler& only = []() -> Profiler& {
    auto& made = *new Profiler;  // never destroyed: operations may end while the process does
    made_profiler.store(&made, std::memory_order_release);
    return made;
  }();
  return only;
}

std::string trace_path(const std::string& path, int rank) {
  const std::size_t slash = path.rfind('/');
  std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash)) dot = path.size();
  return path.substr(0, dot) + ".rank" + std::to_string(rank) + path.substr(dot);
}

std::uint64_t Profiler::begin_heard(const char* name, const GroupDescription& group, std::uint64_t sequence,
                                    std::uint64_t bytes) {
  auto open = std::make_unique<Open>(
      Open{name, group.name, {}, group.global_rank < 0 ? group.rank : group.global_rank});
  ProfilingEvent event{.kind = ProfilingEvent::Kind::begin,
                       .id = 0,  // given below
                       .name = open->name,
                       .group = open->group,
                       .rank = group.rank,
                       .sequence = sequence,
                       .bytes = bytes,
                       .time_ns = steady_ns(),
                       .success = false};
  open->event = event;
  return begin_open(std::move(open));
}

std::uint64_t Profiler::begin_call_heard(const Call& call) {
  auto open =
      std::make_unique<Open>(Open{std::string(call.function), call.row, {}, call.job_rank, call.arrow});
  open->event = {.kind = ProfilingEvent::Kind::begin,
                 .id = 0,  // given below
                 .name = open->name,
                 .group = {},  // the same
                 .rank = call.worker,
                 .sequence = call.number,
                 .bytes = call.bytes,
                 .time_ns = steady_ns(),
                 .success = false};
  return begin_open(std::move(open));
}

std::uint64_t Profiler::begin_open(std::unique_ptr<Open> open) {
  ProfilingEvent event;
  std::shared_ptr<const ProfilingCallback> callback;
  {
    const std::lock_guard lock(mutex_);
    if (open->arrow) {
      const std::string row = open->group;
      for (int next = 2; !in_rows_.insert(open->group).second; ++next)
        open->group = row + ", " + std::to_string(next);
      open->event.group = open->group;
    }
    open->event.id = ++last_id_;
    event = open->event;
    if (trace_) trace_->begin(event, open->job_rank, open->arrow ? &*open->arrow : nullptr);
    open_.emplace(event.id, std::move(open));
    callback = callback_;
  }
  if (callback) (*callback)(event);
  return event.id;
}

void Profiler::end_heard(std::uint64_t id, bool success) {
  std::unique_ptr<Open> ended;
  std::shared_ptr<const ProfilingCallback> callback;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    ended = std::move(found->second);
    open_.erase(found);
    ProfilingEvent& event = ended->event;
    const std::int64_t began = std::exchange(event.time_ns, steady_ns());
    event.kind = ProfilingEvent::Kind::end;
    event.success = success;
    if (ended->arrow) in_rows_.erase(ended->group);
    if (trace_) trace_->end(event, ended->job_rank, began, ended->arrow ? &*ended->arrow : nullptr);
    callback = callback_;
  }
  if (callback) (*callback)(ended->event);
}

void Profiler::set_callback(ProfilingCallback callback) {
  const std::lock_guard lock(mutex_);
  callback_ = callback ? std::make_shared<const ProfilingCallback>(std::move(callback)) : nullptr;
  listening_ = callback_ || trace_;
}

void Profiler::start_trace(const std::string& path) {
  at_process_end<dlaunch::stop_trace>();
  auto trace = std::make_unique<TraceFile>(path);
  const std::lock_guard lock(mutex_);
  trace_ = std::move(trace);
  path_ = path;
  listening_ = true;
}

void Profiler::start_trace_once(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    if (trace_ && path_ == path) return;
  }
  start_trace(path);
}

void Profiler::stop_trace() {
  std::unique_ptr<TraceFile> ended;
  const std::lock_guard lock(mutex_);
  ended = std::move(trace_);
  listening_ = callback_ != nullptr;
}

}  // namespace dlaunch::internal

namespace dlaunch {
using namespace internal;
inline namespace v1 {

void set_profiling_callback(ProfilingCallback callback) { profiler().set_callback(std::move(callback)); }
void start_trace(const std::string& path) { profiler().start_trace(path); }
void stop_trace() { profiler().stop_trace(); }

}  // namespace v1
}  // namespace dlaunch
