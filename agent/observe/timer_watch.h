// torchelastic's watchdog: a process of the job sets a timer before a step that must not take longer
// (PyTorch's FileTimerClient). If the process does not release it in time, it receives a signal. Only a
// worker of this node or a worker's descendant can: never the agent, its helpers or any other process,
// whatever the FIFO says. The end of the worker is then handled like any other.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "agent/model/job_status.h"
#include "agent/model/log_message.h"
#include "agent/model/spawner.h"
#include "agent/observe/postmortem.h"
#include "agent/observe/timer_requests.h"
#include "store/base/io.h"
#include "store/loop/uv_poller.h"

namespace dlaunch::agent {

class TimerWatch final : public FdHandler, public TimerHandler {
 public:
  struct Dependencies {  // not owned; all must outlive it
    UvPoller& poller;
    Clock& clock;
    Timers& timers;
  };
  struct Config {
    int fifo = -1;                  // agent/process/timer_fifo.h
    std::function<pid_t()> keeper;  // an ancestor of all processes of the job
    std::function<JobStatus()> status;
    std::function<void(const LogMessage&)> on_log;
  };

  TimerWatch(Dependencies dependencies, Config config);
  ~TimerWatch() override;
  TimerWatch(const TimerWatch&) = delete;
  TimerWatch& operator=(const TimerWatch&) = delete;

  // The last signal that this object has sent to the worker.
  [[nodiscard]] std::optional<Postmortem::Sent> sent_to(ProcKey worker) const;

  void on_readable(int fd) override;
  void on_writable(int) override {}
  void on_timer(TimerId timer) override;

 private:
  bool read_some();
  void take(std::string_view line);
  void end(const TimerBook::Expired& timer, const std::vector<pid_t>& processes, const JobStatus& status);
  void arm_next();
  void warn(std::string sentence);

  Dependencies dependencies_;
  Config config_;
  TimerLines lines_;
  TimerBook book_;
  TimerId next_;
  bool has_tidied_ = false;  // in this event; else a flood of requests would search a full table each time
  int warned_ = 0;
  std::map<ProcKey, Postmortem::Sent> sent_;  // to workers of the last round in which a timer expired
};

}  // namespace dlaunch::agent
