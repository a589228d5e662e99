#include "agent/process/worker_session.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>

#include "agent/process/clone_into_cgroup.h"
#include "agent/process/raw_syscall.h"

namespace dlaunch::agent {

// In the memory of both. Either the caller runs or the leader, never both.
struct WorkerSession::Order {
  enum State : std::uint32_t { none, given, done };
  static int serve(void* order);

  std::uint32_t state = none;
  const WorkerClone* worker = nullptr;
  pid_t made = -1;  // also by a leader that was killed before it could report
  pid_t keeper = 0;
  alignas(16) char stack[16 * 1024];
};

namespace {

// The leader calls these three: std::atomic would call a sanitizer's library, which knows one thread here.

__attribute__((always_inline)) inline std::uint32_t state_of(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// Until the state is another one than this, for a while at most.
__attribute__((always_inline)) inline void await_change(std::uint32_t& word, std::uint32_t from) {
  const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
  raw_syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, from, &patience);
}

__attribute__((always_inline)) inline void change(std::uint32_t& word, std::uint32_t to) {
  __atomic_store_n(&word, to, __ATOMIC_RELEASE);
  raw_syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace

void make_worker(const WorkerClone& worker, pid_t& made) {
  const unsigned flags = worker.flags | CLONE_PARENT_SETTID;
  if (worker.cgroup >= 0 && clone_into_cgroup(worker.cgroup, flags, worker.main, worker.argument,
                                              worker.stack, worker.stack_size, &made) >= 0)
    return;
  // The kernel, a seccomp filter or a threaded cgroup may forbid the call above.
  clone(worker.main, worker.stack + worker.stack_size, static_cast<int>(flags | SIGCHLD), worker.argument,
        &made);
}

// The leader. Between two orders it runs beside the caller, in its memory, and so writes only the order and
// calls nothing of the C library.
__attribute__((no_sanitize("address", "undefined", "thread"))) int WorkerSession::Order::serve(void* order) {
  auto& own = *static_cast<Order*>(order);
  raw_syscall(SYS_setsid);
  raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (raw_syscall(SYS_getppid) != own.keeper) raw_syscall(SYS_exit_group, 1);
  for (;;) {
    for (std::uint32_t now = state_of(own.state); now != given; now = state_of(own.state))
      await_change(own.state, now);
    make_worker(*own.worker, own.made);
    change(own.state, done);
  }
}

WorkerSession::WorkerSession(std::uint32_t size)
    : order_(std::make_unique_for_overwrite<Order>()), left_(size) {
  if constexpr (!raw_syscall_keeps_errno) return;
  order_->keeper = getpid();
  leader_ = clone(Order::serve, order_->stack + sizeof order_->stack, CLONE_VM | CLONE_FILES | SIGCHLD,
                  order_.get());
}

WorkerSession::~WorkerSession() { end_leader(); }

void WorkerSession::end_leader() {
  if (!leader_lives()) return;
  kill(leader_, SIGKILL);
  while (waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
  }
  leader_ = -1;
}

void WorkerSession::on_reaped(pid_t pid) {
  if (pid == leader_) leader_ = -1;
}

// It may have been killed.
bool WorkerSession::leader_lives() const {
  siginfo_t ended{};
  return leader_ > 0 && waitid(P_PID, static_cast<id_t>(leader_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid == 0;
}

pid_t WorkerSession::make(const WorkerClone& worker) {
  if (left_ > 0) --left_;
  if (!leader_lives()) return -1;
  WorkerClone child = worker;
  child.flags |= CLONE_PARENT;
  order_->worker = &child;
  order_->made = -1;
  change(order_->state, Order::given);
  // The leader may have been stopped (SIGSTOP). `made` is certain once it has ended.
  for (int patience = 10; state_of(order_->state) != Order::done && leader_lives(); --patience) {
    if (patience == 0) end_leader();
    await_change(order_->state, Order::given);
  }
  if (order_->made < 0) end_leader();  // the limit on processes may be reached
  return order_->made;
}

}  // namespace dlaunch::agent
