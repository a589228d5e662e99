#include "agent/keeper.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "agent/keeper_process.h"
#include "agent/reaper.h"
#include "agent/worker_start.h"

namespace dlaunch::agent {
namespace {

// Where a process's name in `ps` stands.
struct NameArea {
  char* begin;
  std::size_t size;
};

void rename_process(const NameArea& area, const char* name, pid_t agent) {
  prctl(PR_SET_NAME, name, 0, 0, 0);
  std::snprintf(area.begin, area.size, "%s of %d", name, static_cast<int>(agent));
  if (const std::size_t used = std::strlen(area.begin); used + 1 < area.size)
    std::memset(area.begin + used + 1, 0, area.size - used - 1);
}

Inherited ignore_signals() {
  Inherited inherited;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (int signo : kept_ignored) {
    struct sigaction before {};
    sigaction(signo, &ignore, &before);
    inherited.ignored[static_cast<std::size_t>(signo)] = before.sa_handler == SIG_IGN;
  }
  return inherited;
}

[[noreturn]] void keeper_main(int socket, const Inherited& inherited, const JobTraces& traces) {
  const Frame ready{FrameKind::ready, 0, 0, 0, getpid(), 0};
  send(socket, &ready, sizeof ready, MSG_NOSIGNAL);
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

[[noreturn]] void guard_main(int socket, pid_t agent, const NameArea& name, const JobTraces& traces) {
  const Inherited inherited = ignore_signals();
  setsid();
  become_subreaper();
  rename_process(name, "dl-guard", agent);

  const pid_t keeper = fork();
  if (keeper == 0) {
    rename_process(name, "dl-keeper", agent);
    keeper_main(socket, inherited, traces);
  }
  if (keeper < 0) {
    const Frame none{FrameKind::ready, 0, 0, 0, -errno, 0};
    send(socket, &none, sizeof none, MSG_NOSIGNAL);
    _exit(1);
  }
  close(socket);
  if (!wait_for_keeper(keeper)) end_and_remove_all(traces);
  _exit(0);
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

Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const JobTraces& traces) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return cannot_start_keeper(errno);
  become_subreaper();
  const pid_t agent = getpid();
  const pid_t guard = fork();
  if (guard == 0) {
    close(ends[0]);
    guard_main(ends[1], agent, {argv0, argv0_size}, traces);
  }
  const int why = errno;
  close(ends[1]);
  if (guard < 0) {
    close(ends[0]);
    return cannot_start_keeper(why);
  }
  return Keeper{guard, ends[0], traces};
}

}  // namespace dlaunch::agent
