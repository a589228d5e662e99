#include "agent/process/keeper_spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/output/pseudo_terminal.h"
#include "agent/platform/reaper.h"
#include "agent/process/job_resources.h"
#include "agent/process/passed_descriptors.h"
#include "store/base/bytes.h"

namespace dlaunch::agent {
namespace {

void wait_for(pid_t child) {
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string spawn_body(const Command& command) {
  std::string body;
  ByteWriter out(body);
  out.u32(static_cast<std::uint32_t>(command.argv.size()))
      .u32(static_cast<std::uint32_t>(command.environment.size()))
      .u32(static_cast<std::uint32_t>(command.cpus.size()))
      .u32(static_cast<std::uint32_t>(command.memory_nodes.size()));
  for (const int cpu : command.cpus) out.u32(static_cast<std::uint32_t>(cpu));
  for (const int node : command.memory_nodes) out.u32(static_cast<std::uint32_t>(node));
  const auto add = [&](const std::string& text) { body.append(text).push_back('\0'); };
  for (const std::string& argument : command.argv) add(argument);
  for (const auto& [name, value] : command.environment) {
    add(name);
    add(value);
  }
  return body;
}

// The kernel counts in KiB.
std::uint64_t most_memory_in(const std::string& body) {
  constexpr std::int64_t unit = 1024;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ByteReader(as_byte_span(body)).i64()) * unit);
}

}  // namespace

KeeperSpawner::KeeperSpawner(UvPoller& poller, Output& output, Postmortem& postmortem, Keeper keeper)
    : poller_(poller), output_(output), postmortem_(postmortem), keeper_(std::move(keeper)) {
  poller_.watch(keeper_.socket, true, false, *this);
  // Reaps orphans that are not below the keeper: the keeper itself after its guard was killed, and any
  // process if the agent is process 1 of a container.
  poller_.on_signal(SIGCHLD, [](int) { reap_all_ended(); });
}

KeeperSpawner::~KeeperSpawner() {
  if (keeper_.socket >= 0) {
    wake();
    poller_.unwatch(keeper_.socket);
    close(keeper_.socket);
  }
  if (!was_let_go_) leaving().await();
  if (keeper_.guards_life >= 0) close(keeper_.guards_life);
}

KeeperSpawner::Leaving KeeperSpawner::leaving() const {
  return {guard_is_above() ? keeper_.child : pid_, pid_};
}

bool KeeperSpawner::guard_is_above() const {
  return keeper_.child != pid_ && (!guard_ || guard_->is_above_keeper());
}

void KeeperSpawner::Leaving::await() const {
  wait_for(child);
  if (keeper > 0 && keeper != child) wait_for(keeper);  // our child only if the guard was killed
}

std::optional<KeeperSpawner::Leaving> KeeperSpawner::let_go() {
  if (!nothing_left_) return std::nullopt;
  was_let_go_ = true;
  send({FrameKind::leave, 0, 0, 0, 0, 0});
  const Leaving on_its_way = leaving();
  // A guard above the keeper would end only after it and has nothing to do: killing it now ends both sooner.
  end_guard();
  return on_its_way;
}

// Does not wait for the end of a guard above the keeper; Leaving::await does.
void KeeperSpawner::end_guard() {
  siginfo_t guard{};
  const bool is_above = guard_is_above() && waitid(P_PID, static_cast<id_t>(keeper_.child), &guard,
                                                   WEXITED | WNOHANG | WNOWAIT) == 0;
  if (is_above) kill(keeper_.child, SIGKILL);
  guard_.reset();
}

Result<void> KeeperSpawner::await_keeper() {
  if (outstanding_ > 0) postmortem_.begin();  // while there is nothing else to do
  Frame ready;
  iovec part{&ready, sizeof ready};
  PassedDescriptors<1> descriptors;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  descriptors.receive_with(header);
  const ssize_t got = receive_when_there(header);
  if (got != sizeof ready) return cannot_start_keeper(ECHILD);
  // If no guard is above the keeper, no process holds the other end.
  if (keeper_.child == ready.number) close(std::exchange(keeper_.guards_life, -1));
  if (ready.number <= 0) return cannot_start_keeper(static_cast<int>(-ready.number));
  pid_ = static_cast<pid_t>(ready.number);
  const int cgroup = descriptors.received(header)[0];
  about_cgroup_.resize(ready.length);
  part = {about_cgroup_.data(), about_cgroup_.size()};
  header.msg_control = nullptr;
  header.msg_controllen = 0;
  if (!about_cgroup_.empty() && receive_when_there(header) != static_cast<ssize_t>(about_cgroup_.size()))
    return cannot_start_keeper(ECHILD);
  if (cgroup >= 0) keeper_.resources.cgroup = {about_cgroup_, cgroup};
  return {};
}

// One receive is enough: the keeper sends the whole message at once.
ssize_t KeeperSpawner::receive_when_there(msghdr& header) const {
  pollfd waiting{keeper_.socket, POLLIN, 0};
  while (poll(&waiting, 1, -1) < 0 && errno == EINTR) {
  }
  return recvmsg(keeper_.socket, &header, MSG_CMSG_CLOEXEC);
}

void KeeperSpawner::begin_guard(Timers& timers, const Clock& clock, Duration later,
                                std::function<void(const std::string&)> warn) {
  guard_dependencies_.emplace(Guard::Dependencies{poller_, timers, clock, std::move(warn)});
  guard(later);
}

void KeeperSpawner::guard(Duration later) {
  if (!guard_dependencies_) return;
  guard_.emplace(*guard_dependencies_, pid_, keeper_.resources, keeper_.guards_name);
  if (keeper_.child == pid_) {
    guard_->begin(later);
  } else {
    guard_->take_over(keeper_.child, std::exchange(keeper_.guards_life, -1));
  }
}

void KeeperSpawner::expect_success() {
  expects_success_ = true;
  send({FrameKind::leave_after_success, 0, 0, 0, 0, 0});
}

void KeeperSpawner::spawn(ProcKey key, const Command& command) {
  const int pmi = command.speaks_pmi && pmi_ != nullptr ? pmi_->open(key) : -1;
  if (command.speaks_pmi && pmi < 0)
    return handler_->on_spawn_failed(key, "cannot make its PMI connection: " + advice_on_start(errno));
  const StreamEnds out = open_stream(key, command, Output::Stream::out);
  const StreamEnds err = out.ours >= 0 ? open_stream(key, command, Output::Stream::err) : StreamEnds{};
  if (err.ours < 0) {
    const std::string why = advice_on_start(errno);
    if (out.ours >= 0) close(out.ours);
    if (out.theirs >= 0) close(out.theirs);
    if (pmi >= 0) close(pmi);
    handler_->on_spawn_failed(key, "cannot make a pipe or terminal for its output: " + why);
    return;
  }
  output_.add(key, command, Output::Stream::out, out.ours);
  output_.add(key, command, Output::Stream::err, err.ours);
  if (key != health_check) postmortem_.expect(key, command.rank);
  ++outstanding_;
  killed_ = false;
  nothing_left_ = false;
  const bool gives_control = output_.gives_control() && key != health_check;
  send({FrameKind::spawn, 0, key.round, key.local_rank, gives_control ? owns_terminal : command.session_size,
        0},
       spawn_body(command), {out.theirs, err.theirs, pmi});
  for (const int theirs : {out.theirs, err.theirs, pmi}) {
    if (theirs >= 0) close(theirs);
  }
}

KeeperSpawner::StreamEnds KeeperSpawner::open_stream(ProcKey key, const Command& command,
                                                     Output::Stream stream) {
  if (output_.gives_terminal(key, command, stream)) {
    if (const auto terminal = open_pseudo_terminal()) return {terminal->agent, terminal->worker};
    if (output_.gives_control()) return {};  // the user asked for a terminal: a pipe would not do
  }
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  fcntl(ends[0], F_SETFL, O_NONBLOCK);  // only our end: programs expect a blocking stdout
  return {ends[0], ends[1]};
}

void KeeperSpawner::signal_all(int signo) {
  output_.keep_output_tails();
  wake();
  send({FrameKind::signal_all, 0, 0, 0, signo, 0});
}

void KeeperSpawner::suspend() { send({FrameKind::suspend, 0, 0, 0, 0, 0}); }
void KeeperSpawner::resume() { send({FrameKind::resume, 0, 0, 0, 0, 0}); }
void KeeperSpawner::kill_all() {
  killed_ = true;
  wake();
  send({FrameKind::kill_all, 0, 0, 0, 0, 0});
}

// The keeper may have been stopped (SIGSTOP). Then it would end no process, and never end itself.
void KeeperSpawner::wake() const {
  if (keeper_.socket >= 0 && pid_ > 0) kill(pid_, SIGCONT);
}

std::string KeeperSpawner::give_up() {
  gave_up_ = true;
  std::string words;
  std::size_t more = 0;
  for (const pid_t pid : descendants_of(pid_)) {
    const std::string one = explain_process(pid);
    if (one.empty()) continue;
    if (words.size() > 200) {
      ++more;
    } else {
      words += (words.empty() ? "process " : ", process ") + one;
    }
  }
  if (more > 0) words += " and " + std::to_string(more) + " more";
  send({FrameKind::give_up, 0, 0, 0, 0, 0});
  return words.empty() ? "a process" : words;
}

// Blocks while the socket's buffer is full. The keeper never blocks on this process, so it continues to read.
void KeeperSpawner::send(Frame frame, const std::string& body, const SpawnDescriptors& fds) {
  if (keeper_.socket < 0) return;
  frame.length = static_cast<std::uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&frame), sizeof frame);
  bytes += body;

  iovec part{bytes.data(), bytes.size()};
  PassedDescriptors<3> all;
  PassedDescriptors<2> streams;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (fds[2] >= 0) {
    all.send_with(header, fds);
  } else if (fds[0] >= 0) {
    streams.send_with(header, {fds[0], fds[1]});
  }
  std::size_t done = 0;
  while (done < bytes.size()) {
    part = {bytes.data() + done, bytes.size() - done};
    const ssize_t sent = sendmsg(keeper_.socket, &header, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) {
      // Full of bytes, or of descriptors under way. The loop made the socket non-blocking.
      pollfd room{keeper_.socket, POLLOUT, 0};
      poll(&room, 1, errno == EAGAIN ? -1 : 1);
      continue;
    }
    if (sent < 0) return;  // the keeper has ended: on_readable notices it
    done += static_cast<std::size_t>(sent);
    header.msg_control = nullptr;  // the descriptors went with the first byte
    header.msg_controllen = 0;
  }
}

void KeeperSpawner::on_readable(int) {
  char chunk[16 * 1024];
  const ssize_t got = recv(keeper_.socket, chunk, sizeof chunk, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    lost();
    return;
  }
  received_.append(chunk, static_cast<std::size_t>(got));
  while (received_.size() >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, received_.data(), sizeof frame);
    if (received_.size() < sizeof frame + frame.length) return;
    const std::string body = received_.substr(sizeof frame, frame.length);
    received_.erase(0, sizeof frame + frame.length);
    handle(frame, body);
  }
}

void KeeperSpawner::on_writable(int) {}

void KeeperSpawner::handle(const Frame& frame, const std::string& body) {
  const ProcKey key{frame.round, frame.local_rank};
  switch (frame.kind) {
    case FrameKind::started:
      postmortem_.on_started(key, frame.number);
      handler_->on_started(key, frame.number);
      break;
    case FrameKind::spawn_failed:
      --outstanding_;
      postmortem_.forget(key);
      output_.drain(key);
      handler_->on_spawn_failed(key, body + advice_on_start(static_cast<int>(frame.number)));
      break;
    case FrameKind::exited: {
      --outstanding_;
      WorkerExit exit;
      exit.status = ExitStatus::from_wait_status(static_cast<int>(frame.number));
      Output::LastLines last_lines = output_.drain(key);
      exit.tail = std::move(last_lines.text);
      exit.tail_is_of_stdout = last_lines.are_of_stdout;
      exit.tail_at_signal = output_.take_kept_tail(key);
      exit.log_file =
          output_.log_file_of(key, exit.tail_is_of_stdout ? Output::Stream::out : Output::Stream::err);
      exit.most_memory = most_memory_in(body);
      if (exit.status.success()) {
        postmortem_.forget(key);
      } else {
        postmortem_.examine(key, frame.pid, killed_, exit);
      }
      handler_->on_exited(key, frame.pid, exit);
      break;
    }
    case FrameKind::leftovers:
      handler_->on_leftovers(static_cast<int>(frame.number), body);
      break;
    case FrameKind::all_gone:
      // The keeper sent it before our last Spawn arrived, and will send it again.
      if (outstanding_ > 0) break;
      nothing_left_ = true;
      output_.close_all();
      handler_->on_all_gone();
      break;
    case FrameKind::spawn:
    case FrameKind::signal_all:
    case FrameKind::kill_all:
    case FrameKind::suspend:
    case FrameKind::resume:
    case FrameKind::keep_alive:
    case FrameKind::give_up:
    case FrameKind::leave:
    case FrameKind::leave_after_success:
    case FrameKind::ready:
      break;  // sent only by the agent, or read by await_keeper
  }
}

// The workers die with the keeper (parent-death signal). The guard ends what they leave if this agent cannot.
// Agent and guard may do so at the same time, but the guard must not kill the next keeper's processes.
void KeeperSpawner::lost() {
  poller_.unwatch(keeper_.socket);
  close(std::exchange(keeper_.socket, -1));
  if (was_let_go_ || gave_up_ || (expects_success_ && nothing_left_)) return;  // its end was expected
  const std::string lost = "the keeper process " + std::to_string(pid_);
  end_guard();
  const bool all_ended = end_all(keeper_.resources).empty();
  output_.close_all();
  received_.clear();
  outstanding_ = 0;
  nothing_left_ = true;
  expects_success_ = false;  // the new keeper does not know
  const Result<void> another = all_ended ? start_another() : cannot_start_keeper(EBUSY);
  if (another) return handler_->on_workers_lost(lost);
  end_and_remove_all(keeper_.resources, Duration(0));
  handler_->on_spawner_lost(lost + " was killed, and with it the workers; " + another.error().message());
}

Result<void> KeeperSpawner::start_another() {
  pid_ = 0;
  remove_job_cgroup(keeper_.resources.cgroup);
  if (keeper_.resources.cgroup.exists()) close(keeper_.resources.cgroup.fd);
  auto started = start_another_keeper(keeper_.config);
  if (!started) return started.error();
  keeper_ = std::move(*started);
  if (auto ready = await_keeper(); !ready) return ready;
  poller_.watch(keeper_.socket, true, false, *this);
  keep_alive(lease_until_);
  guard(Duration(0));
  return {};
}

// Sends a point in time, not a duration: this process may be stopped before the keeper reads it.
void KeeperSpawner::keep_alive(TimePoint until) {
  lease_until_ = until;
  const std::int64_t end =
      until == TimePoint::max()
          ? 0
          : std::max<std::int64_t>(1, to_millis(until - TimePoint(monotonic_now())) + boot_time_ms());
  send({FrameKind::keep_alive, 0, 0, 0, end, 0});
}

}  // namespace dlaunch::agent
