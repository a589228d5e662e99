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

// Keeps a forked process on the caller's processor, where it runs as soon as the caller sleeps. The kernel
// might place it on a processor that another process (the agent) keeps busy, and corrects that only later.
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

void report_ready(int socket, std::int64_t number, const std::string& body, int cgroup) {
  const Frame ready{FrameKind::ready, static_cast<std::uint32_t>(body.size()), 0, 0, number, 0};
  std::string bytes(reinterpret_cast<const char*>(&ready), sizeof ready);
  bytes += body;
  iovec part{bytes.data(), bytes.size()};
  PassedDescriptors<1> descriptors;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (cgroup >= 0) descriptors.send_with(header, {cgroup});
  sendmsg(socket, &header, MSG_NOSIGNAL);
}

// What guard and keeper receive from the agent.
struct Beginning {
  const KeeperConfig& config;
  int socket;       // the keeper's end
  int agents_life;  // the guard's end
  ProcessName guards_name;
  ProcessName keepers_name;
  JobResources resources;
  std::string about_cgroup{};
};

[[noreturn]] void keeper_main(const Beginning& known) {
  close(known.agents_life);
  report_ready(known.socket, getpid(), known.about_cgroup, known.resources.cgroup.fd);
  setsid();
  become_subreaper();
  carry(known.resources.mark);
  KeeperProcess(known.socket, known.config.inherited, known.resources.cgroup).run();
  _exit(end_and_remove_all(known.resources) ? 0 : 1);
}

// Starts the keeper first, because the workers wait for it, and finishes its own preparation afterwards.
[[noreturn]] void guard_main(const Beginning& known) {
  const SameProcessor processor;
  const pid_t keeper = fork();
  if (keeper == 0) {
    processor.leave();
    rename_process(known.keepers_name);
    keeper_main(known);
  }
  if (keeper < 0) {
    report_ready(known.socket, -errno, "", -1);
    _exit(1);
  }
  close(known.socket);
  constexpr int a_moment_ms = 20;
  poll(nullptr, 0, a_moment_ms);
  processor.leave();
  setsid();
  rename_process(known.guards_name);
  run_guard(
      {known.agents_life, keeper, open_process(keeper), true, known.resources, known.config.keeper_timeout});
}

[[noreturn]] void child_main(Beginning& known) {
  const KeeperConfig& config = known.config;
  ignore_signals();
  allow_all_signals();
  become_subreaper();
  if (config.make_cgroup) {
    const auto cgroup = config.make_cgroup();
    if (cgroup) known.resources.cgroup = *cgroup;
    known.about_cgroup = cgroup ? cgroup->path : cgroup.error().message();
  }
  if (!known.resources.cgroup.exists()) guard_main(known);
  rename_process(known.keepers_name);
  keeper_main(known);
}

// Restores descriptors and limits as they were when the agent started.
void restore_initial_state(const Beginning& known) {
  const JobResources& resources = known.resources;
  drop_agents_state({known.socket, known.agents_life, resources.scratch_dir.fd, resources.pages_dir.fd,
                     resources.timer_fifo.fd});
  setrlimit(RLIMIT_NOFILE, &known.config.descriptors);
}

Result<Keeper> fork_keeper(const KeeperConfig& config, bool is_first) {
  int ends[2];
  int life[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot_start_keeper(errno);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life) != 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    return cannot_start_keeper(why);
  }
  const auto named = [&](const char* comm) { return name_in(config.argv0, config.argv0_size, comm); };
  Beginning known{config, ends[1], life[1], named("dl-guard"), named("dl-keeper"), config.resources};
  pid_t child = -1;
  {
    const BlockedSignals blocked;
    child = fork();
    if (child == 0) {
      close(ends[0]);
      close(life[0]);
      if (!is_first) restore_initial_state(known);
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
  return Keeper{child, ends[0], life[0], config.resources, known.guards_name, config};
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

Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobResources& resources,
                            const MakeCgroup& make_cgroup, std::chrono::milliseconds keeper_timeout) {
  become_subreaper();
  KeeperConfig config{argv0, argv0_size, resources, make_cgroup, keeper_timeout, inherited_signals(), {}};
  config.resources.mark = make_job_mark();
  getrlimit(RLIMIT_NOFILE, &config.descriptors);
  return fork_keeper(config, true);
}

Result<Keeper> start_another_keeper(const KeeperConfig& config) { return fork_keeper(config, false); }

}  // namespace dlaunch::agent
