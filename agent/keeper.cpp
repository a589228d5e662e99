#include "agent/keeper.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
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

[[noreturn]] void keeper_main(int socket, const Inherited& inherited, const JobTraces& traces,
                              const std::string& about_group) {
  tell_ready(socket, getpid(), about_group, traces.group.fd);
  setsid();
  become_subreaper();
  KeeperProcess(socket, inherited, traces.group).run();
  _exit(end_and_remove_all(traces) ? 0 : 1);
}

// True: it ended by itself, and has left nothing.
bool wait_for_keeper(pid_t keeper) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(keeper, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == keeper && WIFEXITED(status);
}

// What it does not need for its task it does when the keeper has begun: the workers wait for that.
[[noreturn]] void guard_main(int socket, const ProcessName& own, const ProcessName& keepers,
                             const Inherited& inherited, const JobTraces& traces,
                             const std::string& about_group) {
  const SameProcessor processor;
  const pid_t keeper = fork();
  if (keeper == 0) {
    processor.leave();
    rename_process(keepers);
    keeper_main(socket, inherited, traces, about_group);
  }
  if (keeper < 0) {
    tell_ready(socket, -errno, "", -1);
    remove_all(traces);
    _exit(1);
  }
  close(socket);
  constexpr int a_moment_ms = 20;
  poll(nullptr, 0, a_moment_ms);
  processor.leave();
  setsid();
  rename_process(own);
  if (!wait_for_keeper(keeper)) end_and_remove_all(traces);
  _exit(0);
}

[[noreturn]] void child_main(int socket, const ProcessName& guards, const ProcessName& keepers,
                             JobTraces traces, const MakeGroup& make_group) {
  const Inherited inherited = ignore_signals();
  allow_all_signals();
  become_subreaper();
  std::string about_group;
  if (make_group) {
    const auto group = make_group();
    if (group) traces.group = *group;
    about_group = group ? group->path : group.error().message();
  }
  if (!traces.group.exists()) guard_main(socket, guards, keepers, inherited, traces, about_group);
  rename_process(keepers);
  keeper_main(socket, inherited, traces, about_group);
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
                            const MakeGroup& make_group) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot_start_keeper(errno);
  become_subreaper();
  const ProcessName guards = name_in(argv0, argv0_size, "dl-guard");
  const ProcessName keepers = name_in(argv0, argv0_size, "dl-keeper");
  pid_t child = -1;
  {
    const BlockedSignals blocked;
    child = fork();
    if (child == 0) {
      close(ends[0]);
      child_main(ends[1], guards, keepers, traces, make_group);
    }
  }
  const int why = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return cannot_start_keeper(why);
  }
  return Keeper{child, ends[0], traces, guards};
}

}  // namespace dlaunch::agent
