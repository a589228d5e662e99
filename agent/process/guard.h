// The agent's side of its guard (agent/process/keeper.h): starts it, notices its end, and starts another.
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
  // Of the keeper `keeper`.
  Guard(const Dependencies& dependencies, pid_t keeper, JobResources resources, ProcessName name);
  // The guard has nothing to do while the agent lives, and ends with this; one that was taken over does not.
  ~Guard() override;
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  // Starts it after this time; at once, if that is 0.
  void begin(Duration later);
  // One that runs already, above the keeper. `life`: the socket whose other end it holds, owned by this.
  void take_over(pid_t pid, int life);
  // Of one that was taken over and has not ended.
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
  int life_ = -1;   // ends for the guard with the agent, and for the agent with the guard
  TimePoint since_;
  bool was_taken_over_ = false;
  bool is_replacement_ = false;
  std::string lost_;  // the one before, which ended; it has not been said yet
};

}  // namespace dlaunch::agent
