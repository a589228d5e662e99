// torchelastic's watchdog: a process of the job sets a timer for what must not take longer (PyTorch's
// FileTimerClient), and where it does not release it in time, it is sent a signal. Only a worker of this node
// or a process that comes from one is: never the agent, its helpers or a stranger, whatever the FIFO says.
// What follows is what follows the end of any worker.
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
    std::function<pid_t()> keeper;  // the processes of the job come from it
    std::function<JobStatus()> status;
    std::function<void(const LogMessage&)> on_log;
  };

  TimerWatch(Dependencies dependencies, Config config);
  ~TimerWatch() override;
  TimerWatch(const TimerWatch&) = delete;
  TimerWatch& operator=(const TimerWatch&) = delete;

  // What it has sent this worker, the last time.
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
  bool has_tidied_ = false;  // in this event: a full book would be gone through for every request of a flood
  int warned_ = 0;
  std::map<ProcKey, Postmortem::Sent> sent_;  // to workers of the last round in which it was needed
};

}  // namespace dlaunch::agent
