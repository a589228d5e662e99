#include "launcher/remote/remote_runner.h"

#include <utility>

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
      tree_(plan, poller, *this),
      reader_patience_(reader_patience) {
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) hosts_.emplace_back(plan.key);
}

RemoteRunner::~RemoteRunner() {
  for (const agent::Console& one : consoles_) poller_.unwatch(one.fd());
  for (const TimerId timer : {job_timer_, heartbeat_timer_, reader_timer_}) loop_.disarm(timer);
}

void RemoteRunner::begin() {
  heartbeat_timer_ = loop_.arm(loop_.now() + heartbeat_interval, *this);
  act(job_.begin(loop_.now()));
  work();
}

void RemoteRunner::on_signal(int signo, bool stops) { happened(UserSignal{signo, stops}); }

void RemoteRunner::write_own(std::string_view line) {
  console(Stream::err).write(line);
  pause_or_resume();
}

void RemoteRunner::on_readable(int) {}

void RemoteRunner::on_writable(int fd) {
  for (agent::Console& one : consoles_) {
    if (one.fd() == fd) {
      one.push();
      return pause_or_resume();
    }
  }
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
  for (std::size_t node = 0; node < hosts_.size(); ++node) {
    if (hosts_[node].up) tree_.send(static_cast<int>(node), alive_line);
  }
  tree_.keep_relays();
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
                   [&](const RunHost& a) { run(a.node, a.directly); },
                   [&](const PassSignal& a) { tree_.send(a.node, signal_line(a.signo)); },
                   [&](const Disconnect& a) { tree_.end_input(a.node); },
                   [&](const SignalHost& a) { tree_.signal(a.node, a.signo); },
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

void RemoteRunner::run(int node, bool directly) {
  const RemoteHost& host = plan_.hosts[static_cast<std::size_t>(node)];
  log::debug("node " + std::to_string(node) + ", " + host.name + ": " + join(host.command, " "));
  Host& one = hosts_[static_cast<std::size_t>(node)];
  one = Host(plan_.key);
  if (auto started = tree_.run(node, directly); !started) {
    events_.emplace_back(HostNotRun{node, started.error().message()});
    return;
  }
  one.is_running = true;
}

void RemoteRunner::on_not_run(int node, const std::string& why) {
  hosts_[static_cast<std::size_t>(node)].is_running = false;
  happened(HostNotRun{node, why});
}

void RemoteRunner::on_gone(int node, const agent::ExitStatus& status) {
  Host& one = hosts_[static_cast<std::size_t>(node)];
  one.is_running = false;
  one.up = false;
  for (const Stream stream : {Stream::out, Stream::err}) {
    one.outputs.at(static_cast<std::size_t>(stream))
        .lines.finish([&](std::string_view beginning, std::string_view rest) {
          joined_.assign(beginning).append(rest);
          pass_on(static_cast<std::size_t>(node), stream, joined_);
        });
  }
  happened(HostGone{node, status, one.tail.text()});
  pause_or_resume();
}

// --- output of the hosts ---

void RemoteRunner::on_output(int node, Stream stream, std::string_view bytes) {
  const auto at = static_cast<std::size_t>(node);
  hosts_[at]
      .outputs.at(static_cast<std::size_t>(stream))
      .lines.cut(bytes, [&](std::string_view beginning, std::string_view rest) {
        if (beginning.empty()) return pass_on(at, stream, rest);
        joined_.assign(beginning).append(rest);
        pass_on(at, stream, joined_);
      });
  pause_or_resume();
}

void RemoteRunner::on_connection_words(int node, std::string_view words) {
  Host& one = hosts_[static_cast<std::size_t>(node)];
  one.tail.add(words);
  if (one.up) console(Stream::err).write(words);
}

void RemoteRunner::pass_on(std::size_t node, Stream stream, std::string_view lines) {
  Host& host = hosts_[node];
  for (const StreamPart& part : host.outputs.at(static_cast<std::size_t>(stream)).content.take(lines)) {
    if (part.kind == StreamPart::Kind::message) {
      on_message(node, stream, part.message);
      continue;
    }
    if (stream == Stream::err) host.tail.add(part.text);
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
      Host::Output& output = hosts_[node].outputs.at(static_cast<std::size_t>(stream));
      const bool pause = must_wait(node, stream, full);
      if (!hosts_[node].is_running || output.paused == pause) continue;
      output.paused = pause;
      tree_.pause(static_cast<int>(node), stream, pause);
    }
  }
}

}  // namespace dlaunch::launcher
