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

// The end of a pipe, or of a process. False: not within that time.
bool ends_within(int fd, int limit_ms) {
  pollfd end{fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&end, 1, limit_ms);
  } while (ready < 0 && errno == EINTR);
  return ready != 0;
}

[[noreturn]] void guard_main(int agents_life, int keeper, const JobTraces& traces, const ProcessName& name) {
  ignore_signals();
  std::signal(SIGCHLD, SIG_DFL);
  allow_all_signals();
  setsid();
  rename_process(name);
  close_all_but({agents_life, keeper, traces.group.fd, traces.scratch_dir.fd, traces.pages_dir.fd,
                 traces.timer_fifo.fd});
  constexpr int for_ever = -1;
  ends_within(agents_life, for_ever);
  if (!ends_within(keeper, static_cast<int>(usual_keepers_time.count())))
    syscall(SYS_pidfd_send_signal, keeper, SIGKILL, nullptr, 0);
  end_and_remove_all(traces);
  _exit(0);
}

}  // namespace

LateGuard::LateGuard(Timers& timers, const Clock& clock, Duration later, pid_t keeper, JobTraces traces,
                     ProcessName name)
    : timers_(timers), keeper_(keeper), traces_(std::move(traces)), name_(std::move(name)) {
  if (later > Duration(0)) {
    timer_ = timers.arm(clock.now() + later, *this);
  } else {
    begin();
  }
}

LateGuard::~LateGuard() {
  if (timer_) timers_.disarm(timer_);
  if (pid_ < 0) return;
  siginfo_t ended{};
  const bool is_ours = waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0;
  if (is_ours) kill(pid_, SIGKILL);
  while (is_ours && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(our_life_);
}

void LateGuard::begin() {
  const int keeper = open_process(keeper_);
  std::array<int, 2> life{-1, -1};
  {
    const BlockedSignals blocked;
    if (keeper >= 0 && pipe2(life.data(), O_CLOEXEC) == 0) pid_ = fork();
    if (pid_ == 0) {
      close(life[1]);
      guard_main(life[0], keeper, traces_, name_);
    }
  }
  our_life_ = pid_ < 0 ? -1 : life[1];
  for (const int fd : {keeper, life[0], pid_ < 0 ? life[1] : -1}) {
    if (fd >= 0) close(fd);
  }
}

}  // namespace dlaunch::agent
