#include "agent/late_guard.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

namespace dlaunch::agent {
namespace {

// A pidfd: readable once the process has ended. The headers may be older than the kernel, which can make
// groups.
int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

sigset_t none() {
  sigset_t set;
  sigemptyset(&set);
  return set;
}

sigset_t block_signals() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  return before;
}

void allow_signals(const sigset_t& set) { sigprocmask(SIG_SETMASK, &set, nullptr); }

// Nobody may wait for a port or a file because the guard has it.
void close_all_but(std::array<int, 6> kept) {
  std::sort(kept.begin(), kept.end());
  int next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd < next) continue;  // none, or the same
    if (fd > next) syscall(SYS_close_range, next, fd - 1, 0);
    next = fd + 1;
  }
  syscall(SYS_close_range, next, ~0U, 0);
}

// The end of a pipe, or of a process.
void await_end(int fd) {
  pollfd end{fd, POLLIN, 0};
  while (poll(&end, 1, -1) < 0 && errno == EINTR) {
  }
}

[[noreturn]] void guard_main(int agents_life, int keeper, const JobTraces& traces, const ProcessName& name) {
  ignore_signals();
  std::signal(SIGCHLD, SIG_DFL);
  allow_signals(none());
  setsid();
  rename_process(name);
  close_all_but({agents_life, keeper, traces.group.fd, traces.scratch_dir.fd, traces.pages_dir.fd,
                 traces.timer_fifo.fd});
  await_end(agents_life);
  await_end(keeper);  // which ends everything, if it can
  end_and_remove_all(traces);
  _exit(0);
}

}  // namespace

LateGuard::LateGuard(Timers& timers, const Clock& clock, Duration later, pid_t keeper, JobTraces traces,
                     ProcessName name)
    : timers_(timers),
      timer_(timers.arm(clock.now() + later, *this)),
      keeper_(keeper),
      traces_(std::move(traces)),
      name_(std::move(name)) {}

LateGuard::~LateGuard() {
  timers_.disarm(timer_);
  if (pid_ < 0) return;
  siginfo_t ended{};
  const bool is_ours = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (is_ours) kill(pid_, SIGKILL);
  while (is_ours && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(our_life_);
}

void LateGuard::on_timer(TimerId) {
  const int keeper = open_process(keeper_);
  std::array<int, 2> life{-1, -1};
  // The agent's handlers would pass a signal to the forked process on to the agent, which has had it already.
  const sigset_t allowed = block_signals();
  if (keeper >= 0 && pipe2(life.data(), O_CLOEXEC) == 0) pid_ = fork();
  if (pid_ == 0) {
    close(life[1]);
    guard_main(life[0], keeper, traces_, name_);
  }
  allow_signals(allowed);
  our_life_ = pid_ < 0 ? -1 : life[1];
  for (const int fd : {keeper, life[0], pid_ < 0 ? life[1] : -1}) {
    if (fd >= 0) close(fd);
  }
}

}  // namespace dlaunch::agent
