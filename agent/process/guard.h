// The agent's side of the guard (agent/process/keeper.h): starts it, notices its end, and starts another one.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "agent/process/helper_process.h"
#include "agent/process/job_resources.h"
#include "store/base/io.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

class Guard final : public TimerHandler, public FdHandler {
 public:
  struct Dependencies {  // not owned; all must outlive it
    UvPoller& poller;
    Timers& timers;
    const Clock& clock;
    std::function<void(const std::string&)> warn;
  };
  // Guards the keeper with pid `keeper`.
  Guard(const Dependencies& dependencies, pid_t keeper, JobResources resources, ProcessName name);
  // Ends the guard, which has nothing to do while the agent lives. A guard that was taken over runs on.
  ~Guard() override;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Starts a guard after this time; at once if it is 0.
  void begin(Duration later);
  // Watches a guard that already runs as the keeper's parent. `life`: the socket whose other end the guard
  // holds; this object owns it.
  void take_over(pid_t pid, int life);
  // The guard was taken over and has not ended.
  [[nodiscard]] bool is_above_keeper() const { return was_taken_over_; }

  void on_timer(TimerId timer) override;
  void on_readable(int fd) override;
  void on_writable(int /*fd*/) override {}

 private:
  void start();
  void watch(pid_t pid, int life);
  void forget();

  Dependencies dependencies_;
  pid_t keeper_;
  JobResources resources_;
  ProcessName name_;
  TimerId timer_;
  pid_t pid_ = -1;  // -1: none runs
  int life_ = -1;   // a socket pair: each of agent and guard sees by it that the other has ended
  TimePoint since_;
  bool was_taken_over_ = false;
  bool is_replacement_ = false;
  std::string lost_;  // the previous guard, if its end has not been reported yet
};

}  // namespace dlaunch::agent
