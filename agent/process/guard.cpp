#include "agent/process/guard.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "agent/platform/reaper.h"
#include "agent/process/guard_process.h"

namespace dlaunch::agent {
namespace {

// Replacements that end at once must not keep the agent busy: they are started at most this often.
constexpr Duration shortest_life = std::chrono::seconds(1);

[[noreturn]] void guard_main(const GuardDuty& duty, const ProcessName& name) {
  drop_agents_state({duty.agents_life, duty.keepers_end, duty.resources.cgroup.fd,
                     duty.resources.scratch_dir.fd, duty.resources.pages_dir.fd,
                     duty.resources.timer_fifo.fd});
  ignore_signals();
  allow_all_signals();
  setsid();
  rename_process(name);
  run_guard(duty);
}

void close_if_open(int fd) {
  if (fd >= 0) close(fd);
}

std::string describe(pid_t guard) { return "dl-guard (pid " + std::to_string(guard) + ")"; }

}  // namespace

Guard::Guard(const Dependencies& dependencies, pid_t keeper, JobResources resources, ProcessName name)
    : dependencies_(dependencies),
      keeper_(keeper),
      resources_(std::move(resources)),
      name_(std::move(name)) {}

Guard::~Guard() {
  if (timer_) dependencies_.timers.disarm(timer_);
  const pid_t pid = was_taken_over_ ? -1 : pid_;
  siginfo_t ended{};
  const bool is_ours =
      pid >= 0 && waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
  // Before its connection is closed: it would take that for this process's death, and remove the job's files.
  if (is_ours) kill(pid, SIGKILL);
  forget();
  while (is_ours && waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::begin(Duration later) {
  if (later > Duration(0)) {
    timer_ = dependencies_.timers.arm(dependencies_.clock.now() + later, *this);
  } else {
    start();
  }
}

void Guard::take_over(pid_t pid, int life) {
  was_taken_over_ = true;
  watch(pid, life);
}

void Guard::on_timer(TimerId /*timer*/) {
  timer_ = {};
  start();
}

// The guard has ended, though the agent lives. A guard above the keeper also ends after the keeper; then
// there is nothing left to guard.
void Guard::on_readable(int /*fd*/) {
  const pid_t lost = pid_;
  forget();
  was_taken_over_ = false;
  waitpid(lost, nullptr, WNOHANG);
  if (!birth_of(keeper_)) return;
  lost_ = describe(lost);
  const bool ends_quickly =
      std::exchange(is_replacement_, true) && dependencies_.clock.now() - since_ < shortest_life;
  begin(ends_quickly ? shortest_life : Duration(0));
}

void Guard::start() {
  std::array<int, 2> life{-1, -1};
  GuardDuty duty;
  duty.keeper = keeper_;
  duty.resources = resources_;
  duty.keeper_timeout = default_keeper_timeout;
  pid_t pid = -1;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life.data()) == 0) {
    duty.agents_life = life[1];
    duty.keepers_end = open_process(keeper_);
    const BlockedSignals blocked;
    pid = fork();
    if (pid == 0) guard_main(duty, name_);
  }
  close_if_open(life[1]);
  close_if_open(duty.keepers_end);
  if (pid < 0) {
    close_if_open(life[0]);
    return begin(shortest_life);  // try again: the machine may have room for a process then
  }
  watch(pid, life[0]);
  if (!lost_.empty())
    dependencies_.warn(std::exchange(lost_, "") + " was killed; " + describe(pid) + " replaces it");
}

void Guard::watch(pid_t pid, int life) {
  pid_ = pid;
  life_ = life;
  since_ = dependencies_.clock.now();
  dependencies_.poller.watch(life_, true, false, *this);
}

void Guard::forget() {
  if (life_ < 0) return;
  dependencies_.poller.unwatch(life_);
  close(life_);
  life_ = -1;
  pid_ = -1;
}

}  // namespace dlaunch::agent
