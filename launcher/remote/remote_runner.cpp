#include "launcher/remote/remote_runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "launcher/flags/value_parsers.h"
#include "store/base/log.h"
#include "store/base/overloaded.h"

namespace dlaunch::launcher {

namespace {

// How often to check whether a reader has taken something.
constexpr Duration look_every = std::chrono::milliseconds(100);
// More than an agent that has ended, ssh and the pipes between them can buffer.
constexpr std::size_t most_read_ahead = 32U << 20;

}  // namespace

RemoteRunner::RemoteRunner(const RemotePlan& plan, Duration notice, Duration reader_patience, UvLoop& loop,
                           UvPoller& poller, Consoles& consoles)
    : plan_(plan),
      job_(plan, notice),
      loop_(loop),
      poller_(poller),
      consoles_(consoles),
      reader_patience_(reader_patience) {
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) hosts_.emplace_back(plan.key);
}

RemoteRunner::~RemoteRunner() {
  for (HostProcess& process : hosts_) {
    disconnect(process);
    for (HostProcess::Output& output : process.outputs) end(output);
  }
  for (const agent::Console& one : consoles_) poller_.unwatch(one.fd());
  for (const TimerId timer : {job_timer_, heartbeat_timer_, reader_timer_}) loop_.disarm(timer);
}

void RemoteRunner::begin() {
  poller_.on_signal(SIGCHLD, [this](int) { reap(); });
  heartbeat_timer_ = loop_.arm(loop_.now() + heartbeat_interval, *this);
  act(job_.begin(loop_.now()));
  work();
}

void RemoteRunner::on_signal(int signo, bool stops) { happened(UserSignal{signo, stops}); }

void RemoteRunner::write_own(std::string_view line) {
  console(Stream::err).write(line);
  pause_or_resume();
}

void RemoteRunner::on_readable(int fd) {
  const auto found = readers_.find(fd);
  if (found == readers_.end()) return;
  take_in(found->second.first, found->second.second);
  pause_or_resume();
}

void RemoteRunner::on_writable(int fd) {
  for (agent::Console& one : consoles_) {
    if (one.fd() == fd) {
      one.push();
      return pause_or_resume();
    }
  }
  if (const auto found = writers_.find(fd); found != writers_.end()) feed(hosts_[found->second]);
}

void RemoteRunner::on_timer(TimerId timer) {
  if (timer == job_timer_) {
    job_timer_ = {};
    happened(RemoteTimer{});
    return;
  }
  if (timer == reader_timer_) {
    reader_timer_ = {};
    return look_at_readers();
  }
  for (HostProcess& process : hosts_) {
    if (process.up) send(process, alive_line);
  }
  heartbeat_timer_ = loop_.arm(loop_.now() + heartbeat_interval, *this);
}

// --- stepping ---

void RemoteRunner::happened(RemoteEvent event) {
  events_.push_back(std::move(event));
  work();
}

void RemoteRunner::work() {
  if (working_) return;
  working_ = true;
  while (!events_.empty()) {
    const RemoteEvent event = std::move(events_.front());
    events_.pop_front();
    act(job_.step(loop_.now(), event));
  }
  working_ = false;
}

void RemoteRunner::act(const RemoteActions& actions) {
  for (const RemoteAction& action : actions) {
    std::visit(Overloaded{
                   [&](const RunHost& a) { run(static_cast<std::size_t>(a.node)); },
                   [&](const PassSignal& a) { send(at(a.node), signal_line(a.signo)); },
                   [&](const Disconnect& a) { disconnect(at(a.node)); },
                   [&](const SignalHost& a) {
                     if (at(a.node).pid > 0) kill(at(a.node).pid, a.signo);
                   },
                   [&](const ArmRemoteTimer& a) {
                     loop_.disarm(job_timer_);
                     job_timer_ = loop_.arm(a.at, *this);
                   },
                   [&](const RemoteEnded&) { loop_.stop(); },
                   [&](const agent::LogMessage& a) { log::warning(a.text); },
               },
               action);
  }
}

// --- processes ---

void RemoteRunner::run(std::size_t node) {
  const RemoteHost& host = plan_.hosts[node];
  HostProcess& process = hosts_[node];
  log::debug("node " + std::to_string(node) + ", " + host.name + ": " + join(host.command, " "));
  if (auto spawned = spawn(host.command, process); !spawned) {
    events_.emplace_back(HostNotRun{static_cast<int>(node), spawned.error().message()});
    return;
  }
  for (const Stream stream : {Stream::out, Stream::err}) {
    const int fd = process.outputs.at(static_cast<std::size_t>(stream)).fd;
    readers_[fd] = {node, stream};
    poller_.watch(fd, true, false, *this);
  }
  writers_[process.input] = node;
  send(process, plan_.secret_line + host.script);
}

void RemoteRunner::send(HostProcess& process, std::string_view text) {
  if (process.input < 0) return;
  process.unsent.append(text);
  feed(process);
}

void RemoteRunner::feed(HostProcess& process) {
  while (!process.unsent.empty()) {
    const ssize_t wrote = write(process.input, process.unsent.data(), process.unsent.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) return poller_.watch(process.input, false, true, *this);
    if (wrote < 0) break;  // it has ended; SIGCHLD follows
    process.unsent.erase(0, static_cast<std::size_t>(wrote));
  }
  process.unsent.clear();
  poller_.unwatch(process.input);
}

void RemoteRunner::disconnect(HostProcess& process) {
  if (process.input < 0) return;
  poller_.unwatch(process.input);
  writers_.erase(process.input);
  close(process.input);
  process.input = -1;
  process.unsent.clear();
}

void RemoteRunner::end(HostProcess::Output& output) {
  if (output.fd < 0) return;
  poller_.unwatch(output.fd);
  readers_.erase(output.fd);
  close(output.fd);
  output.fd = -1;
}

void RemoteRunner::reap() {
  for (std::size_t node = 0; node < hosts_.size(); ++node) {
    HostProcess& process = hosts_[node];
    int status = 0;
    if (process.pid <= 0 || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
    process.pid = 0;
    process.up = false;
    // All its output is in the pipes. Do not wait for other holders of the pipes (a shared ssh connection).
    for (const Stream stream : {Stream::out, Stream::err}) {
      constexpr int most_reads = 64;
      for (int i = 0; i < most_reads && take_in(node, stream); ++i) {
      }
      end(process.outputs.at(static_cast<std::size_t>(stream)));
    }
    disconnect(process);
    happened(
        HostGone{static_cast<int>(node), agent::ExitStatus::from_wait_status(status), process.tail.text()});
  }
  pause_or_resume();
}

// --- output of the hosts ---

bool RemoteRunner::take_in(std::size_t node, Stream stream) {
  static char buffer[64 * 1024];  // the loop's thread is the only one
  HostProcess::Output& output = hosts_[node].outputs.at(static_cast<std::size_t>(stream));
  if (output.fd < 0) return false;
  const ssize_t got = read(output.fd, buffer, sizeof buffer);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  const auto emit = [&](std::string_view beginning, std::string_view rest) {
    if (beginning.empty()) {
      pass_on(node, stream, rest);
    } else {
      joined_.assign(beginning).append(rest);
      pass_on(node, stream, joined_);
    }
  };
  if (got > 0) {
    output.lines.cut(std::string_view(buffer, static_cast<std::size_t>(got)), emit);
    return true;
  }
  output.lines.finish(emit);
  end(output);
  return false;
}

void RemoteRunner::pass_on(std::size_t node, Stream stream, std::string_view lines) {
  HostProcess& process = hosts_[node];
  for (const StreamPart& part : process.outputs.at(static_cast<std::size_t>(stream)).content.take(lines)) {
    if (part.kind == StreamPart::Kind::message) {
      on_message(node, stream, part.message);
      continue;
    }
    if (stream == Stream::err) process.tail.add(part.text);
    if (part.kind == StreamPart::Kind::output) console(stream).write(part.text);
  }
}

void RemoteRunner::on_message(std::size_t node, Stream stream, const AgentMessage& message) {
  if (message.kind != AgentMessage::Kind::ready) {
    happened(HostMessage{static_cast<int>(node), message});
  } else if (stream == Stream::err) {
    hosts_[node].up = true;
    happened(HostReady{static_cast<int>(node)});
  }
}

bool RemoteRunner::must_wait(std::size_t node, Stream stream, bool full) const {
  const bool ahead = reads_ahead_ && node == 0 && stream == Stream::err &&
                     consoles_.at(static_cast<std::size_t>(stream)).queued() < most_read_ahead;
  return full && !ahead;
}

// While workers run, wait for a reader that takes nothing; after that, only up to reader_patience_.
void RemoteRunner::look_at_readers() {
  const TimePoint now = loop_.now();
  bool some_wait = false;
  for (const Stream stream : {Stream::out, Stream::err}) {
    agent::Console& one = console(stream);
    TimePoint& taken_at = taken_at_.at(static_cast<std::size_t>(stream));
    if (one.has_moved() || one.queued() == 0) taken_at = now;
    const bool has_stopped = now - taken_at >= reader_patience_ && one.queued() > 0;
    if (has_stopped && job_.is_over()) one.give_up();
    if (stream == Stream::err) reads_ahead_ = has_stopped && !job_.is_over();
    some_wait = some_wait || one.queued() > 0;
  }
  if (some_wait) reader_timer_ = loop_.arm(now + look_every, *this);
  pause_or_resume();
}

void RemoteRunner::give_up_readers() {
  was_hurried_ = true;
  for (agent::Console& one : consoles_) {
    one.push();
    if (one.queued() > 0) one.give_up();
  }
  pause_or_resume();
}

// Hosts that write to a console with a slow reader must wait, as in a shell's pipe.
void RemoteRunner::pause_or_resume() {
  for (const Stream stream : {Stream::out, Stream::err}) {
    agent::Console& one = console(stream);
    const bool full = one.is_full();
    if (one.wants_writing()) {
      poller_.watch(one.fd(), false, true, *this);
      if (!reader_timer_) {
        taken_at_.fill(loop_.now());
        reader_timer_ = loop_.arm(loop_.now() + look_every, *this);
      }
    } else {
      poller_.unwatch(one.fd());
    }
    for (std::size_t node = 0; node < hosts_.size(); ++node) {
      HostProcess::Output& output = hosts_[node].outputs.at(static_cast<std::size_t>(stream));
      const bool pause = must_wait(node, stream, full);
      if (output.fd < 0 || output.paused == pause) continue;
      output.paused = pause;
      if (pause) {
        poller_.unwatch(output.fd);
      } else {
        poller_.watch(output.fd, true, false, *this);
      }
    }
  }
}

}  // namespace dlaunch::launcher
