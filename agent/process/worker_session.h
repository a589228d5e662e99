// One session for the workers of a round that outnumber the processors.
//
// Linux gives each session its own share of the processors (autogroups, sched(7)), and sched_yield(2) passes
// a processor on only to threads of the same share. Ranks that wait for each other on one processor change
// several times faster if they are in one session. The keeper is not in it: it must get a processor at once,
// however busy its workers are.
//
// A process can found a session, but not enter one. So a process that has founded it, the session's leader,
// makes the workers for the keeper: as the keeper's own children (CLONE_PARENT).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace dlaunch::agent {

// A worker before its exec, as clone(2) makes it.
struct WorkerClone {
  int cgroup = -1;  // it begins there, if the kernel can; -1: in this process's
  unsigned flags = 0;
  int (*main)(void*) = nullptr;  // must not return
  void* argument = nullptr;
  char* stack = nullptr;
  std::size_t stack_size = 0;
};

// In the session of the caller. `made` becomes its pid before it begins to run; it stays as it is, with
// errno, if the kernel refuses it.
void make_worker(const WorkerClone& worker, pid_t& made);

// One thread.
class WorkerSession {
 public:
  // Starts the leader. So many workers are to be made.
  explicit WorkerSession(std::uint32_t size);
  // Ends it. The session lasts as long as its processes.
  ~WorkerSession();
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  [[nodiscard]] pid_t leader() const { return leader_; }  // -1: it could not be started
  // The worker is in the session, and a child of this process. Returns its pid, or -1 if the kernel refuses
  // it or the leader has ended; from then on the session has no leader.
  pid_t make(const WorkerClone& worker);
  // The caller has reaped a child. It may have been the leader.
  void on_reaped(pid_t pid);
  // All that were to be made were asked for.
  [[nodiscard]] bool is_complete() const { return left_ == 0; }

 private:
  struct Order;

  [[nodiscard]] bool leader_lives() const;
  void end_leader();

  const std::unique_ptr<Order> order_;
  pid_t leader_ = -1;
  std::uint32_t left_;
};

}  // namespace dlaunch::agent
