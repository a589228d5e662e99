#include "agent/process/keeper_process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "agent/platform/reaper.h"
#include "agent/process/passed_descriptors.h"
#include "store/base/bytes.h"

namespace dlaunch::agent {
namespace {

constexpr int killing_pause_ms = 20;
constexpr int start_patience_ms = 1000;
constexpr std::uint32_t max_body = 64U << 20;

// Returns the position behind them.
const char* take_numbers(const char* from, std::size_t count, std::vector<std::uint32_t>& into) {
  into.resize(count);
  const std::size_t bytes = count * sizeof(std::uint32_t);
  if (bytes > 0) std::memcpy(into.data(), from, bytes);
  return from + bytes;
}

bool ends_by_default(int signo) {
  return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

}  // namespace

void KeeperProcess::run() {
  sigset_t chld;
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  sigprocmask(SIG_BLOCK, &chld, nullptr);
  const int children = signalfd(-1, &chld, SFD_NONBLOCK | SFD_CLOEXEC);
  while (true) {
    // All workers that the agent requests in one go are one batch.
    if (pending_execs_.batch_is_open() && !has_command()) pending_execs_.close_batch();
    std::array<pollfd, 3> fds{
        {{socket_, static_cast<short>(POLLIN | (unsent_.empty() ? 0 : POLLOUT)), 0},
         {children, POLLIN, 0},
         {pending_execs_.batch_is_open() ? -1 : pending_execs_.descriptor(), POLLIN, 0}}};
    const int ready = poll(fds.data(), fds.size(), poll_timeout());
    if (ready < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) {
      signalfd_siginfo info;
      while (read(children, &info, sizeof info) > 0) {
      }
    }
    if (fds[2].revents != 0) report_started();
    if (fds[1].revents != 0 || killing_) reap();
    if (killing_) kill_once();
    end_lease_when_over();  // before a command that may renew it: an expired lease is not renewed
    if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !take_command()) return;
    end_lease_when_over();
    flush();  // all reports at once, so that the agent wakes only once
    if (leaves_after_success_ && !any_failed_ && nothing_is_left() && unsent_.empty()) _exit(0);
  }
}

bool KeeperProcess::has_command() const {
  pollfd command{socket_, POLLIN, 0};
  return poll(&command, 1, 0) > 0;
}

int KeeperProcess::poll_timeout() const {
  if (killing_) return killing_pause_ms;
  constexpr int longest = 24 * 3600 * 1000;
  return lease_end_ == 0 || nothing_is_left() ? -1 : lease_left(longest);
}

int KeeperProcess::lease_left(int most) const {
  if (lease_end_ == 0) return most;
  return static_cast<int>(std::clamp<std::int64_t>(lease_end_ - boot_time_ms(), 0, most));
}

// The agent has not renewed the lease: it does not run. The other nodes of the job regard this node as lost.
void KeeperProcess::end_lease_when_over() {
  if (lease_left(1) > 0 || nothing_is_left() || killing_) return;
  killing_ = true;
  session_.reset();
  kill_once();
}

bool KeeperProcess::take_command() {
  Frame frame;
  SpawnDescriptors fds{-1, -1, -1};
  if (!read_frame(frame, fds)) return false;
  std::vector<char> body(std::min(frame.length, max_body));
  if (frame.length > max_body || !read_all(body.data(), body.size())) return false;
  // A worker must have its process group before a signal can reach it, and its start is reported before its
  // end.
  if (frame.kind != FrameKind::spawn && pending_execs_.descriptor() >= 0) {
    pending_execs_.await(lease_left(start_patience_ms));
    report_started();
  }
  if (frame.kind != FrameKind::spawn && frame.kind != FrameKind::keep_alive) session_.reset();
  if (frame.kind == FrameKind::spawn) {
    spawn(frame, std::move(body), fds);
  } else if (frame.kind == FrameKind::signal_all) {
    signal_all(static_cast<int>(frame.number));
  } else if (frame.kind == FrameKind::kill_all) {
    killing_ = true;
    kill_once();
    report_rest(true);
  } else if (frame.kind == FrameKind::give_up || (frame.kind == FrameKind::leave && nothing_is_left())) {
    _exit(0);
  } else if (frame.kind == FrameKind::leave_after_success) {
    leaves_after_success_ = true;
  } else if (frame.kind == FrameKind::keep_alive) {
    lease_end_ = frame.number;
  } else if (frame.kind == FrameKind::suspend || frame.kind == FrameKind::resume) {
    suspend(frame.kind == FrameKind::suspend);
  }
  for (int fd : fds) {
    if (fd >= 0) close(fd);
  }
  return true;
}

bool KeeperProcess::read_frame(Frame& frame, SpawnDescriptors& fds) {
  iovec part{&frame, sizeof frame};
  PassedDescriptors<3> descriptors;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  descriptors.receive_with(header);
  ssize_t got = 0;
  do {
    got = recvmsg(socket_, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  fds = descriptors.received(header);
  const auto have = static_cast<std::size_t>(got);
  return read_all(reinterpret_cast<char*>(&frame) + have, sizeof frame - have);
}

bool KeeperProcess::read_all(char* into, std::size_t size) const {
  while (size > 0) {
    const ssize_t got = recv(socket_, into, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void KeeperProcess::spawn(const Frame& frame, std::vector<char> body, const SpawnDescriptors& fds) {
  std::uint32_t counts[4];
  std::memcpy(counts, body.data(), sizeof counts);
  WorkerStart start;
  start.words = std::move(body);
  start.out = fds[0];
  start.err = fds[1];
  start.pmi = fds[2];
  start.owns_terminal = frame.number == owns_terminal;
  start.cgroup = cgroup_of_next();
  const char* at = start.words.data() + sizeof counts;
  at = take_numbers(at, counts[2], start.cpus);
  at = take_numbers(at, counts[3], start.memory_nodes);
  const auto next = [&at] { return std::exchange(at, at + std::strlen(at) + 1); };
  for (std::uint32_t i = 0; i < counts[0]; ++i) start.argv.push_back(next());
  for (std::uint32_t i = 0; i < counts[1]; ++i) {
    const char* name = next();
    start.environment.emplace_back(name, next());
  }

  leaves_after_success_ = false;
  killing_ = false;
  reported_.reset();
  const ProcKey key{frame.round, frame.local_rank};
  PendingExecs::Failure failure;
  const pid_t pid = pending_execs_.begin(std::move(start), inherited_, failure, session_of(frame));
  if (session_ && session_->is_complete()) session_.reset();
  if (pid >= 0) {
    workers_[pid] = key;
    return;
  }
  spawn_failed(key, failure);
  report_rest(false);
}

WorkerSession* KeeperProcess::session_of(const Frame& spawn) {
  if (spawn.number <= 0) return nullptr;
  if (!session_ || session_round_ != spawn.round)
    session_ = std::make_unique<WorkerSession>(static_cast<std::uint32_t>(spawn.number));
  session_round_ = spawn.round;
  return session_.get();
}

void KeeperProcess::spawn_failed(ProcKey key, const PendingExecs::Failure& failure) {
  any_failed_ = true;
  send({FrameKind::spawn_failed, static_cast<std::uint32_t>(failure.what.size()), key.round, key.local_rank,
        failure.error, 0},
       failure.what);
}

void KeeperProcess::report_started() {
  for (const pid_t pid : pending_execs_.take_started()) {
    const ProcKey key = workers_.at(pid);
    send({FrameKind::started, 0, key.round, key.local_rank, pid, 0}, {});
  }
}

void KeeperProcess::signal_all(int signo) {
  // A worker that is not reaped yet still owns its process group, so the number cannot mean another process.
  for (const auto& [pid, key] : workers_) {
    kill(-pid, signo);
    // A stopped process would not receive the signal until it is continued.
    if (ends_by_default(signo)) kill(-pid, SIGCONT);
  }
  for (pid_t orphan : children_of(getpid())) {
    if (workers_.contains(orphan)) continue;
    for (pid_t pid : descendants_of(orphan)) kill(pid, signo);
    kill(orphan, signo);
  }
  report_rest(true);
}

// Uses SIGSTOP, which no process can catch. SIGTSTP would have no effect on the workers, because the parents
// of their process groups are in other sessions.
void KeeperProcess::suspend(bool stop) {
  std::set<pid_t> done;
  std::size_t before = 0;
  do {  // again, for processes forked meanwhile
    before = done.size();
    for (const pid_t pid : descendants_of(getpid())) {
      if (done.insert(pid).second) kill(pid, stop ? SIGSTOP : SIGCONT);
    }
  } while (done.size() != before);
}

// One write kills the cgroup. The process tree finds those that have left it, and all if there is no cgroup.
void KeeperProcess::kill_once() {
  kill_job_cgroup(cgroup_);
  kill_descendants();
  if (sub_cgroup_ >= 0 && sub_cgroup_ != cgroup_.fd) close(sub_cgroup_);
  sub_cgroup_ = -1;
}

int KeeperProcess::cgroup_of_next() {
  if (sub_cgroup_ >= 0) return sub_cgroup_;
  if (sub_cgroups_ > 0) remove_sub_cgroup(cgroup_, std::to_string(sub_cgroups_));
  return sub_cgroup_ = make_sub_cgroup(cgroup_, std::to_string(++sub_cgroups_));
}

void KeeperProcess::reap() {
  bool any = false;
  int status = 0;
  rusage used{};
  for (pid_t pid = wait4(-1, &status, WNOHANG, &used); pid > 0; pid = wait4(-1, &status, WNOHANG, &used)) {
    any = true;
    if (session_) session_->on_reaped(pid);
    const auto found = workers_.find(pid);
    if (found == workers_.end()) continue;  // an adopted orphan
    const ProcKey key = found->second;
    workers_.erase(found);
    if (const auto start = pending_execs_.take_ended(pid)) {
      if (start->error != 0) {
        spawn_failed(key, *start);
        continue;
      }
      send({FrameKind::started, 0, key.round, key.local_rank, pid, 0}, {});
    }
    any_failed_ = any_failed_ || status != 0;
    std::string memory;
    ByteWriter(memory).i64(used.ru_maxrss);
    send({FrameKind::exited, static_cast<std::uint32_t>(memory.size()), key.round, key.local_rank, status,
          pid},
         memory);
  }
  if (any) report_rest(false);
}

// Reports the processes that the workers left behind, once the last worker has ended and no other one is to
// come. `again`: also if that number was already reported.
void KeeperProcess::report_rest(bool again) {
  if (!workers_.empty() || session_ || (nothing_is_left() && !again)) return;
  siginfo_t info{};
  if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD) {
    reported_ = 0;
    killing_ = false;
    send({FrameKind::all_gone, 0, 0, 0, 0, 0}, {});
    return;
  }
  const std::vector<pid_t> rest = descendants_of(getpid());
  const std::size_t count = std::max<std::size_t>(rest.size(), 1);  // there is one, even if /proc hides it
  if (count == reported_ && !again) return;
  reported_ = count;
  const std::string example = rest.empty() ? "" : name_process(rest.front());
  send({FrameKind::leftovers, static_cast<std::uint32_t>(example.size()), 0, 0,
        static_cast<std::int64_t>(count), 0},
       example);
}

void KeeperProcess::send(const Frame& frame, std::string_view body) {
  unsent_.append(reinterpret_cast<const char*>(&frame), sizeof frame);
  unsent_.append(body);
}

// Never blocks: the agent may be blocked in a write to this process, and neither would then read.
void KeeperProcess::flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = ::send(socket_, unsent_.data(), unsent_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

}  // namespace dlaunch::agent
