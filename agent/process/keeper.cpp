#include "agent/process/keeper.h"

#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "agent/platform/reaper.h"
#include "agent/process/guard_process.h"
#include "agent/process/keeper_process.h"
#include "agent/process/passed_descriptors.h"
#include "agent/process/worker_start.h"
#include "store/base/task_limits.h"

namespace dlaunch::agent {
namespace {

// Until the caller sleeps, what it forks waits for its processor, though another be idle: the kernel may put
// it on one whose process (the agent) is busy, and looks again only after a while.
class SameProcessor {
 public:
  SameProcessor() {
    cpu_set_t here;
    CPU_ZERO(&here);
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    CPU_SET(cpu, &here);
    is_set_ = sched_setaffinity(0, sizeof here, &here) == 0;
  }
  // In this process or the forked one.
  void leave() const {
    if (is_set_) sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_{};
  bool is_set_ = false;
};

// `words`: the body.
void tell_ready(int socket, std::int64_t number, const std::string& words, int group) {
  const Frame ready{FrameKind::ready, static_cast<std::uint32_t>(words.size()), 0, 0, number, 0};
  std::string bytes(reinterpret_cast<const char*>(&ready), sizeof ready);
  bytes += words;
  iovec part{bytes.data(), bytes.size()};
  PassedDescriptors<1> descriptors;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (group >= 0) descriptors.send_with(header, {group});
  sendmsg(socket, &header, MSG_NOSIGNAL);
}

// What guard and keeper know from the agent.
struct Beginning {
  const KeeperPlan& plan;
  int socket;       // the keeper's end
  int agents_life;  // the guard's end
  ProcessName guards_name;
  ProcessName keepers_name;
  JobTraces traces;
  std::string about_group{};
};

[[noreturn]] void keeper_main(const Beginning& known) {
  close(known.agents_life);
  tell_ready(known.socket, getpid(), known.about_group, known.traces.group.fd);
  setsid();
  become_subreaper();
  carry(known.traces.mark);
  KeeperProcess(known.socket, known.plan.inherited, known.traces.group).run();
  _exit(end_and_remove_all(known.traces) ? 0 : 1);
}

// What it does not need for its task it does when the keeper has begun: the workers wait for that.
[[noreturn]] void guard_main(const Beginning& known) {
  const SameProcessor processor;
  const pid_t keeper = fork();
  if (keeper == 0) {
    processor.leave();
    rename_process(known.keepers_name);
    keeper_main(known);
  }
  if (keeper < 0) {
    tell_ready(known.socket, -errno, "", -1);
    _exit(1);
  }
  close(known.socket);
  constexpr int a_moment_ms = 20;
  poll(nullptr, 0, a_moment_ms);
  processor.leave();
  setsid();
  rename_process(known.guards_name);
  run_guard({known.agents_life, keeper, open_process(keeper), true, known.traces, known.plan.keepers_time});
}

[[noreturn]] void child_main(Beginning& known) {
  const KeeperPlan& plan = known.plan;
  ignore_signals();
  allow_all_signals();
  become_subreaper();
  if (plan.make_group) {
    const auto group = plan.make_group();
    if (group) known.traces.group = *group;
    known.about_group = group ? group->path : group.error().message();
  }
  if (!known.traces.group.exists()) guard_main(known);
  rename_process(known.keepers_name);
  keeper_main(known);
}

// As the agent was when it began.
void go_back_to_the_beginning(const Beginning& known) {
  const JobTraces& traces = known.traces;
  drop_agents_state(
      {known.socket, known.agents_life, traces.scratch_dir.fd, traces.pages_dir.fd, traces.timer_fifo.fd});
  setrlimit(RLIMIT_NOFILE, &known.plan.descriptors);
}

Result<Keeper> fork_keeper(const KeeperPlan& plan, bool is_first) {
  int ends[2];
  int life[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot_start_keeper(errno);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) != 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    return cannot_start_keeper(why);
  }
  const auto named = [&](const char* comm) { return name_in(plan.argv0, plan.argv0_size, comm); };
  Beginning known{plan, ends[1], life[1], named("dl-guard"), named("dl-keeper"), plan.traces};
  pid_t child = -1;
  {
    const BlockedSignals blocked;
    child = fork();
    if (child == 0) {
      close(ends[0]);
      close(life[0]);
      if (!is_first) go_back_to_the_beginning(known);
      child_main(known);
    }
  }
  const int why = errno;
  close(ends[1]);
  close(life[1]);
  if (child < 0) {
    close(ends[0]);
    close(life[0]);
    return cannot_start_keeper(why);
  }
  return Keeper{child, ends[0], life[0], plan.traces, known.guards_name, plan};
}

}  // namespace

std::string advice_on_start(int error) {
  std::string why = std::strerror(error);
  switch (error) {
    case EAGAIN:
      return why_no_task();
    case E2BIG:
      return why + " (its arguments and variables together; pass less, or raise ulimit -s)";
    case EMFILE:
    case ENFILE:
      return why + " (raise ulimit -n)";
    default:
      return why;
  }
}

Error cannot_start_keeper(int error) {
  return Error{ErrorKind::io, "cannot start the keeper process", "", advice_on_start(error), ""};
}

Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobTraces& traces,
                            const MakeGroup& make_group, std::chrono::milliseconds keepers_time) {
  become_subreaper();
  KeeperPlan plan{argv0, argv0_size, traces, make_group, keepers_time, inherited_signals(), {}};
  plan.traces.mark = draw_mark();
  getrlimit(RLIMIT_NOFILE, &plan.descriptors);
  return fork_keeper(plan, true);
}

Result<Keeper> start_another_keeper(const KeeperPlan& plan) { return fork_keeper(plan, false); }

}  // namespace dlaunch::agent
