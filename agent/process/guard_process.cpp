#include "agent/process/guard_process.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <optional>

#include "agent/platform/reaper.h"

namespace dlaunch::agent {
namespace {

constexpr int for_ever = -1;
constexpr int look_again_ms = 50;
// A running agent ends what its keeper leaves, and this guard, within this time. An agent that has not done
// so is stopped or too busy.
constexpr int agents_moment_ms = 100;

class Watch {
 public:
  explicit Watch(const GuardDuty& duty) : duty_(duty), birth_(birth_of(duty.keeper)) {}

  void run() {
    while (!keeper_has_ended() && !agent_has_ended()) wait(for_ever);
    if (!agent_has_ended()) act_for_keeper();
    act_for_agent();
  }

 private:
  // The keeper has ended, and the agent lives.
  void act_for_keeper() {
    if (ended_well_) _exit(0);
    // A parent has seen that the keeper was killed. Any other guard cannot distinguish this from the job's
    // end, so it waits for the agent to end it.
    if (!duty_.is_parent) wait(agents_moment_ms);
    if (!agent_has_ended()) end_all(duty_.resources);
    while (!agent_has_ended()) wait(for_ever);
  }

  // A living keeper does the same. It cannot while it is stopped, and SIGCONT does not help if it is stopped
  // again and again, traced, or frozen. Guard and keeper may do this at the same time.
  void act_for_agent() {
    const Duration until = monotonic_now() + duty_.keeper_timeout;
    while (!keeper_has_ended() && monotonic_now() < until) {
      kill(duty_.keeper, SIGCONT);
      kill_job_cgroup(duty_.resources.cgroup);
      if (duty_.is_parent) kill_descendants({duty_.keeper});
      kill_marked_processes(duty_.resources.mark, duty_.keeper);
      wait_for_keeper(look_again_ms);
    }
    if (ended_well_) _exit(0);
    if (!keeper_has_ended()) kill(duty_.keeper, SIGKILL);
    end_and_remove_all(duty_.resources);
  }

  bool agent_has_ended() {
    pollfd life{duty_.agents_life, POLLIN, 0};
    agent_ended_ = agent_ended_ || poll(&life, 1, 0) > 0;
    return agent_ended_;
  }

  bool keeper_has_ended() {
    if (keeper_ended_) return true;
    if (duty_.is_parent) {
      int status = 0;
      const pid_t ended = waitpid(duty_.keeper, &status, WNOHANG);
      keeper_ended_ = ended != 0;
      ended_well_ = ended == duty_.keeper && WIFEXITED(status);
    } else if (duty_.keepers_end >= 0) {
      pollfd end{duty_.keepers_end, POLLIN, 0};
      keeper_ended_ = poll(&end, 1, 0) > 0;
    } else {
      keeper_ended_ = !birth_ || birth_of(duty_.keeper) != birth_;
    }
    return keeper_ended_;
  }

  // Until agent or keeper ends, or the time is over. Older kernels have no descriptor that reports the
  // keeper's end.
  void wait(int limit_ms) {
    const bool must_look = !keeper_ended_ && duty_.keepers_end < 0;
    std::array<pollfd, 2> ends{
        {{duty_.agents_life, POLLIN, 0}, {keeper_ended_ ? -1 : duty_.keepers_end, POLLIN, 0}}};
    poll(ends.data(), ends.size(), must_look && limit_ms < 0 ? look_again_ms : limit_ms);
  }

  void wait_for_keeper(int limit_ms) const {
    pollfd end{duty_.keepers_end, POLLIN, 0};
    poll(&end, 1, limit_ms);
  }

  const GuardDuty& duty_;
  std::optional<std::uint64_t> birth_;
  bool agent_ended_ = false;
  bool keeper_ended_ = false;
  bool ended_well_ = false;  // the keeper exited by itself, after it had ended everything
};

}  // namespace

void run_guard(const GuardDuty& duty) {
  Watch(duty).run();
  _exit(0);
}

}  // namespace dlaunch::agent
