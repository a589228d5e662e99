#include "agent/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/reaper.h"
#include "agent/scratch_dir.h"
#include "agent/spawner.h"

extern char** environ;

namespace dlaunch::agent {
namespace {

constexpr Duration last_effort = std::chrono::seconds(60);
constexpr int killing_pause_ms = 20;
constexpr std::uint32_t max_body = 64U << 20;
constexpr std::array ignored_signals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                     SIGUSR2, SIGPIPE, SIGTSTP, SIGTTIN, SIGTTOU};

// What the keeper's own caller had set, and its workers therefore get.
struct Inherited {
  sigset_t mask{};
  std::array<bool, NSIG> ignored{};
};

struct ChildPlan {
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  int out = -1;
  int err = -1;
  pid_t keeper = 0;
  const Inherited* inherited = nullptr;
  const cpu_set_t* cpus = nullptr;  // nullptr: as inherited
  std::size_t cpus_size = 0;
  int error = 0;      // written by the child, which shares our memory until it execs
  bool bound = true;  // likewise: false where it was the binding that failed
};

// Runs in the child between clone and exec, on its own stack but in the keeper's memory: only
// async-signal-safe calls.
__attribute__((no_sanitize("address", "undefined", "thread"))) int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  setsid();
  // Asked for before the check: if the keeper has died in between, nobody would tell us.
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (getppid() != plan.keeper) _exit(127);
  if (dup2(plan.out, STDOUT_FILENO) < 0 || dup2(plan.err, STDERR_FILENO) < 0) {
    plan.error = errno;
    _exit(127);
  }
  struct sigaction normal {};
  normal.sa_handler = SIG_DFL;
  for (int signo : ignored_signals) {
    if (!plan.inherited->ignored[static_cast<std::size_t>(signo)]) sigaction(signo, &normal, nullptr);
  }
  sigprocmask(SIG_SETMASK, &plan.inherited->mask, nullptr);
  if (plan.cpus && sched_setaffinity(0, plan.cpus_size, plan.cpus) != 0) {
    plan.error = errno;
    plan.bound = false;
    _exit(127);
  }
  execvpe(plan.argv[0], plan.argv, plan.envp);
  plan.error = errno;
  _exit(127);
}

// One mask, as long as the largest CPU needs; empty for no CPUs.
std::vector<cpu_set_t> mask_of(const std::vector<std::uint32_t>& cpus) {
  if (cpus.empty()) return {};
  const std::uint32_t largest = *std::max_element(cpus.begin(), cpus.end());
  std::vector<cpu_set_t> mask(largest / CPU_SETSIZE + 1);
  const std::size_t size = mask.size() * sizeof(cpu_set_t);
  CPU_ZERO_S(size, mask.data());
  for (const std::uint32_t cpu : cpus) CPU_SET_S(cpu, size, mask.data());
  return mask;
}

class KeeperProcess {
 public:
  KeeperProcess(int socket, const Inherited& inherited) : socket_(socket), inherited_(inherited) {}

  // Until the agent is gone.
  void run() {
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, nullptr);
    const int children = signalfd(-1, &chld, SFD_NONBLOCK | SFD_CLOEXEC);
    while (true) {
      std::array<pollfd, 2> fds{{{socket_, static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0},
                                 {children, POLLIN, 0}}};
      const int ready = poll(fds.data(), fds.size(), killing_ ? killing_pause_ms : -1);
      if (ready < 0 && errno != EINTR) return;
      if (fds[1].revents != 0) {
        signalfd_siginfo info;
        while (read(children, &info, sizeof info) > 0) {
        }
      }
      reap();
      if (killing_) kill_descendants();
      if ((fds[0].revents & POLLOUT) != 0) flush();
      if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !take_command()) return;
    }
  }

 private:
  bool take_command() {
    Frame frame;
    std::array<int, 2> fds{-1, -1};
    if (!read_frame(frame, fds)) return false;
    std::string body(std::min(frame.length, max_body), '\0');
    if (frame.length > max_body || !read_all(body.data(), body.size())) return false;
    if (frame.kind == FrameKind::spawn) {
      spawn(frame, body, fds);
    } else if (frame.kind == FrameKind::signal_all) {
      signal_all(static_cast<int>(frame.number));
    } else if (frame.kind == FrameKind::kill_all) {
      killing_ = true;
      kill_descendants();
      report_rest(true);
    }
    for (int fd : fds) {
      if (fd >= 0) close(fd);
    }
    return true;
  }

  bool read_frame(Frame& frame, std::array<int, 2>& fds) {
    iovec part{&frame, sizeof frame};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 2)] = {};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    ssize_t got = 0;
    do {
      got = recvmsg(socket_, &header, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    if (const cmsghdr* message = CMSG_FIRSTHDR(&header); message && message->cmsg_type == SCM_RIGHTS) {
      std::memcpy(fds.data(), CMSG_DATA(message),
                  std::min<std::size_t>(sizeof(int) * 2, message->cmsg_len - CMSG_LEN(0)));
    }
    const auto have = static_cast<std::size_t>(got);
    return read_all(reinterpret_cast<char*>(&frame) + have, sizeof frame - have);
  }

  bool read_all(char* into, std::size_t size) const {
    while (size > 0) {
      const ssize_t got = recv(socket_, into, size, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      into += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

  void spawn(const Frame& frame, const std::string& body, const std::array<int, 2>& fds) {
    std::uint32_t counts[3];
    std::memcpy(counts, body.data(), sizeof counts);
    const std::size_t cpu_bytes = counts[2] * sizeof(std::uint32_t);
    std::vector<std::uint32_t> cpus(counts[2]);
    if (!cpus.empty()) std::memcpy(cpus.data(), body.data() + sizeof counts, cpu_bytes);
    std::vector<const char*> strings;
    for (const char* at = body.data() + sizeof counts + cpu_bytes; at < body.data() + body.size();
         at += std::strlen(at) + 1)
      strings.push_back(at);

    std::vector<char*> argv;
    argv.reserve(counts[0] + 1);
    for (std::uint32_t i = 0; i < counts[0]; ++i) argv.push_back(const_cast<char*>(strings[i]));
    argv.push_back(nullptr);

    // The worker's own variables come first and hide the inherited ones of the same name.
    std::vector<std::string> set;
    set.reserve(counts[1]);
    for (std::uint32_t i = 0; i < counts[1]; ++i) {
      set.push_back(std::string(strings[counts[0] + 2 * i]) + "=" + strings[counts[0] + 2 * i + 1]);
    }
    std::vector<char*> envp;
    envp.reserve(counts[1]);
    for (std::string& variable : set) envp.push_back(variable.data());
    for (char** variable = environ; *variable; ++variable) {
      const std::string_view name(*variable, std::strcspn(*variable, "="));
      const bool hidden = std::any_of(set.begin(), set.end(), [&](const std::string& own) {
        return own.size() > name.size() && own[name.size()] == '=' &&
               std::string_view(own).substr(0, name.size()) == name;
      });
      if (!hidden) envp.push_back(*variable);
    }
    envp.push_back(nullptr);

    ChildPlan plan{argv.data(), envp.data(), fds[0], fds[1], getpid(), &inherited_};
    const std::vector<cpu_set_t> mask = mask_of(cpus);
    if (!mask.empty()) {
      plan.cpus = mask.data();
      plan.cpus_size = mask.size() * sizeof(cpu_set_t);
    }
    alignas(16) static char stack[64 * 1024];
    const pid_t pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
    std::string_view what;
    Frame answer{FrameKind::started, 0, frame.round, frame.local_rank, pid, 0};
    if (pid < 0) {
      answer = {FrameKind::spawn_failed, 0, frame.round, frame.local_rank, errno, 0};
    } else if (plan.error != 0) {
      waitpid(pid, nullptr, 0);
      if (!plan.bound) what = "cannot bind it to its CPUs: ";
      answer = {FrameKind::spawn_failed,
                static_cast<std::uint32_t>(what.size()),
                frame.round,
                frame.local_rank,
                plan.error,
                0};
    } else {
      workers_[pid] = {frame.round, frame.local_rank};
      killing_ = false;
      reported_gone_ = false;
    }
    send(answer, what);
  }

  void signal_all(int signo) {
    // A worker that is not reaped yet still owns its process group, so the number cannot mean anybody else.
    for (const auto& [pid, key] : workers_) {
      kill(-pid, signo);
      // A stopped process would keep the signal until somebody continues it.
      if (signo == SIGTERM) kill(-pid, SIGCONT);
    }
    for (pid_t orphan : children_of(getpid())) {
      if (workers_.contains(orphan)) continue;
      for (pid_t pid : descendants_of(orphan)) kill(pid, signo);
      kill(orphan, signo);
    }
    report_rest(true);
  }

  void reap() {
    bool any = false;
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      any = true;
      const auto found = workers_.find(pid);
      if (found == workers_.end()) continue;  // an adopted orphan
      const ProcKey key = found->second;
      workers_.erase(found);
      send({FrameKind::exited, 0, key.round, key.local_rank, status, pid}, {});
    }
    if (any) report_rest(false);
  }

  // Once no worker is left: what else is.
  void report_rest(bool again) {
    if (!workers_.empty() || (reported_gone_ && !again)) return;
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD) {
      reported_gone_ = true;
      killing_ = false;
      send({FrameKind::all_gone, 0, 0, 0, 0, 0}, {});
      return;
    }
    const std::vector<pid_t> rest = descendants_of(getpid());
    const std::string example = rest.empty() ? "" : name_process(rest.front());
    if (static_cast<int>(rest.size()) == reported_rest_ && !again) return;
    reported_rest_ = static_cast<int>(rest.size());
    send({FrameKind::leftovers, static_cast<std::uint32_t>(example.size()), 0, 0, reported_rest_, 0},
         example);
  }

  // Never blocks: an agent that is busy writing to us must not wait for us to read while we wait for it.
  void send(const Frame& frame, std::string_view body) {
    unsent_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
    unsent_.append(body);
    flush();
  }

  void flush() {
    while (!unsent_.empty()) {
      const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return;
      unsent_.erase(0, static_cast<std::size_t>(sent));
    }
  }

  int socket_;
  Inherited inherited_;
  std::map<pid_t, ProcKey> workers_;
  std::string unsent_;
  bool killing_ = false;
  bool reported_gone_ = true;
  int reported_rest_ = 0;
};

[[noreturn]] void keeper_main(int socket, pid_t agent, char* argv0, std::size_t argv0_size,
                              const std::string& scratch_dir) {
  Inherited inherited;
  sigprocmask(SIG_SETMASK, nullptr, &inherited.mask);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (int signo : ignored_signals) {
    struct sigaction before {};
    sigaction(signo, &ignore, &before);
    inherited.ignored[static_cast<std::size_t>(signo)] = before.sa_handler == SIG_IGN;
  }
  setsid();
  become_subreaper();
  prctl(PR_SET_NAME, "dl-keeper", 0, 0, 0);
  std::snprintf(argv0, argv0_size, "dl-keeper of %d", static_cast<int>(agent));
  if (const std::size_t used = std::strlen(argv0); used + 1 < argv0_size)
    std::memset(argv0 + used + 1, 0, argv0_size - used - 1);

  KeeperProcess(socket, inherited).run();

  const std::vector<pid_t> survivors = kill_and_reap_all(last_effort);
  for (pid_t pid : survivors) {
    std::fprintf(stderr, "dlaunch: process %s survives SIGKILL (in an uninterruptible system call?)\n",
                 name_process(pid).c_str());
  }
  if (!scratch_dir.empty()) remove_scratch_dir(scratch_dir);
  _exit(survivors.empty() ? 0 : 1);
}

}  // namespace

Result<Keeper> start_keeper(char* argv0, std::size_t argv0_size, const std::string& scratch_dir) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{ErrorKind::io, "cannot start the keeper process", "", std::strerror(errno), ""};
  }
  const pid_t agent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const int why = errno;
    close(ends[0]);
    close(ends[1]);
    return Error{ErrorKind::io, "cannot start the keeper process", "", std::strerror(why),
                 "raise the limit on processes (ulimit -u)"};
  }
  if (pid == 0) {
    close(ends[0]);
    keeper_main(ends[1], agent, argv0, argv0_size, scratch_dir);
  }
  close(ends[1]);
  become_subreaper();
  return Keeper{pid, ends[0]};
}

}  // namespace dlaunch::agent
