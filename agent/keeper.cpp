#include "agent/keeper.h"

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "agent/keeper_process.h"
#include "agent/passed_descriptors.h"
#include "agent/reaper.h"
#include "agent/worker_start.h"

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
  int socket;  // the keeper's end
  pid_t agent;
  ProcessName guards_name;
  ProcessName keepers_name;
  JobTraces traces;
  std::chrono::milliseconds keepers_time;
  Inherited inherited{};
  std::string about_group{};
};

[[noreturn]] void keeper_main(const Beginning& known) {
  tell_ready(known.socket, getpid(), known.about_group, known.traces.group.fd);
  setsid();
  become_subreaper();
  KeeperProcess(known.socket, known.inherited, known.traces.group).run();
  _exit(end_and_remove_all(known.traces) ? 0 : 1);
}

// Waits for the end of the keeper, its child, for as long as the agent lives, and then for the time that the
// keeper has. Both ends come as signals: with a descriptor of the keeper's socket the guard would hide its
// end from the agent.
class GuardsWatch {
 public:
  GuardsWatch(pid_t agent, pid_t keeper) : agent_(agent), keeper_(keeper) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGCHLD);
    sigaddset(&signals_, agents_end);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    prctl(PR_SET_PDEATHSIG, agents_end, 0, 0, 0);
  }

  // True: it ended by itself, and has left nothing.
  bool keeper_ends_well(std::chrono::milliseconds time_after_agent) {
    while (getppid() == agent_) {
      if (has_ended()) return ended_well_;
      sigwaitinfo(&signals_, nullptr);
    }
    const Duration until = monotonic_now() + time_after_agent;
    while (!has_ended()) {
      const Duration left = until - monotonic_now();
      if (left <= Duration::zero()) return false;
      const timespec limit{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
      sigtimedwait(&signals_, nullptr, &limit);
    }
    return ended_well_;
  }

 private:
  static constexpr int agents_end = SIGALRM;  // means nothing else here

  bool has_ended() {
    int status = 0;
    const pid_t ended = waitpid(keeper_, &status, WNOHANG);
    ended_well_ = ended == keeper_ && WIFEXITED(status);
    return ended != 0;
  }

  pid_t agent_;
  pid_t keeper_;
  sigset_t signals_{};
  bool ended_well_ = false;
};

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
    remove_all(known.traces);
    _exit(1);
  }
  close(known.socket);
  constexpr int a_moment_ms = 20;
  poll(nullptr, 0, a_moment_ms);
  processor.leave();
  setsid();
  rename_process(known.guards_name);
  if (!GuardsWatch(known.agent, keeper).keeper_ends_well(known.keepers_time)) {
    kill(keeper, SIGKILL);
    end_and_remove_all(known.traces);
  }
  _exit(0);
}

[[noreturn]] void child_main(Beginning& known, const MakeGroup& make_group) {
  known.inherited = ignore_signals();
  allow_all_signals();
  become_subreaper();
  if (make_group) {
    const auto group = make_group();
    if (group) known.traces.group = *group;
    known.about_group = group ? group->path : group.error().message();
  }
  if (!known.traces.group.exists()) guard_main(known);
  rename_process(known.keepers_name);
  keeper_main(known);
}

}  // namespace

std::string advice_on_start(int error) {
  std::string why = std::strerror(error);
  switch (error) {
    case EAGAIN:
      return why + " (raise the limit on processes: ulimit -u, or the container's or service's on pids)";
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
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot_start_keeper(errno);
  become_subreaper();
  Beginning known{
      ends[1], getpid(),    name_in(argv0, argv0_size, "dl-guard"), name_in(argv0, argv0_size, "dl-keeper"),
      traces,  keepers_time};
  pid_t child = -1;
  {
    const BlockedSignals blocked;
    child = fork();
    if (child == 0) {
      close(ends[0]);
      child_main(known, make_group);
    }
  }
  const int why = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return cannot_start_keeper(why);
  }
  return Keeper{child, ends[0], traces, known.guards_name};
}

}  // namespace dlaunch::agent
