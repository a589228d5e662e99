// The guard of a job whose processes are in a control group (agent/keeper.h). It finds them there, and so
// need not stand above them, nor be there before they are: the agent forks it when the job has begun, and a
// short job does without.
#pragma once

#include <sys/types.h>

#include "agent/helper_process.h"
#include "agent/job_traces.h"
#include "store/base/io.h"

namespace dlaunch::agent {

class LateGuard final : public TimerHandler {
 public:
  // It comes `later`; at once, if that is 0. REQUIRES: there is a group. `timers` and `clock` outlive it.
  LateGuard(Timers& timers, const Clock& clock, Duration later, pid_t keeper, JobTraces traces,
            ProcessName name);
  // It has nothing to do while the agent lives, and ends with this.
  ~LateGuard() override;
  LateGuard(const LateGuard&) = delete;
  LateGuard& operator=(const LateGuard&) = delete;

  void on_timer(TimerId /*timer*/) override { begin(); }

 private:
  void begin();  // where none can be forked there is none

  Timers& timers_;
  TimerId timer_;
  pid_t keeper_;
  JobTraces traces_;
  ProcessName name_;
  pid_t pid_ = -1;
  int our_life_ = -1;  // the write end of a pipe that it reads
};

}  // namespace dlaunch::agent
