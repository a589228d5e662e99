// A file by which an agent finds that an earlier one on this machine led the same job until a moment ago.
// Then nodes that it does not know may have leases of that one (agent/control/earlier_worlds.h).
//
// It is an empty file of this user, named after the job and its endpoint. The agent refreshes its time while
// it leads, and removes it when it ends and no worker of a lost node can be left. After SIGKILL it stays; the
// next agent that leads a job of this user here removes those that are older than a day.
#pragma once

#include <functional>
#include <string>

#include "store/base/address.h"
#include "store/base/io.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class LeaderMark final : public TimerHandler {
 public:
  struct Dependencies {  // not owned; both must outlive this
    Timers& timers;
    const Clock& clock;
  };
  // `folder` exists. Refreshed after each `interval`.
  LeaderMark(Dependencies dependencies, const std::string& folder, const std::string& job,
             const Address& endpoint, Duration interval);
  ~LeaderMark() override;
  LeaderMark(const LeaderMark&) = delete;
  LeaderMark& operator=(const LeaderMark&) = delete;

  // An earlier agent refreshed it less than `age` ago. REQUIRES: keep() was not called yet.
  [[nodiscard]] bool was_left_within(Duration age) const;
  // From now on the file is there. May be called more than once. After an error there is none.
  Result<void> keep();
  void remove();

  void on_timer(TimerId timer) override;

 private:
  Result<void> refresh();

  Dependencies dependencies_;
  std::string path_;
  Duration interval_;
  TimerId timer_;
  bool is_kept_ = false;
};

}  // namespace dlaunch::agent
