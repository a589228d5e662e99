#include "launcher/remote_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>

#include "agent/console.h"
#include "agent/lines.h"
#include "agent/uv_edge.h"
#include "launcher/machine.h"
#include "launcher/own_host.h"
#include "launcher/process_limits.h"
#include "launcher/remote_job.h"
#include "launcher/report.h"
#include "launcher/report_file.h"
#include "launcher/values.h"
#include "launcher/verb_output.h"
#include "store/base/log.h"
#include "store/base/overloaded.h"
#include "store/base/uv_loop.h"

extern char** environ;

namespace dlaunch::launcher {
namespace {

// Passed on, unless --signals-to-handle makes them stop the job.
constexpr std::array passed_signals{SIGUSR1, SIGUSR2};

enum class Stream : std::uint8_t { out, err };

// What runs on this machine for one host, and what it says. Passive: it is told when to read and write.
struct HostProcess {
  struct Output {
    explicit Output(const std::string& key) : content(key) {}
    int fd = -1;
    agent::LineSplitter lines;
    AgentStream content;
    bool paused = false;
  };

  explicit HostProcess(const std::string& key) : outputs{Output(key), Output(key)} {}

  pid_t pid = 0;   // 0: it does not run
  int input = -1;  // -1: it has been hung up
  std::string unsent;
  std::array<Output, 2> outputs;  // by Stream
  agent::Tail tail;               // of stderr
  bool up = false;
};

// Makes the three pipes and runs the command between them, in a session of its own: signals of the terminal
// are ours to pass on.
Result<void> spawn(const std::vector<std::string>& command, HostProcess& process) {
  std::array<std::array<int, 2>, 3> pipes{{{-1, -1}, {-1, -1}, {-1, -1}}};
  const auto close_all = [&] {
    for (const auto& pipe : pipes) {
      for (const int fd : pipe) {
        if (fd >= 0) close(fd);
      }
    }
  };
  for (auto& pipe : pipes) {
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      const int why = errno;
      close_all();
      return Error{ErrorKind::io, "no pipe", "", std::strerror(why), why == EMFILE ? "raise ulimit -n" : ""};
    }
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[0][0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes[1][1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes[2][1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
  sigset_t normal;
  sigemptyset(&normal);
  sigaddset(&normal, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &normal);

  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int failed = posix_spawnp(&process.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    process.pid = 0;
    close_all();
    return Error{ErrorKind::io, "cannot run " + command.front(), "", std::strerror(failed), ""};
  }
  close(pipes[0][0]);
  close(pipes[1][1]);
  close(pipes[2][1]);
  process.input = pipes[0][1];
  process.outputs[0].fd = pipes[1][0];
  process.outputs[1].fd = pipes[2][0];
  for (const int fd : {process.input, process.outputs[0].fd, process.outputs[1].fd})
    fcntl(fd, F_SETFL, O_NONBLOCK);
  return {};
}

class RemoteRunner final : public agent::FdHandler, public TimerHandler {
 public:
  RemoteRunner(const RemotePlan& plan, Duration notice, UvLoop& loop, agent::UvEdge& edge,
               std::array<agent::Console, 2>& consoles)
      : plan_(plan), job_(plan, notice), loop_(loop), edge_(edge), consoles_(consoles) {
    for (std::size_t i = 0; i < plan.hosts.size(); ++i) hosts_.emplace_back(plan.key);
  }
  ~RemoteRunner() override {
    for (HostProcess& process : hosts_) close_all(process);
    for (const agent::Console& console : consoles_) edge_.unwatch(console.fd());
    for (const TimerId timer : {job_timer_, beat_timer_}) loop_.disarm(timer);
  }
  RemoteRunner(const RemoteRunner&) = delete;
  RemoteRunner& operator=(const RemoteRunner&) = delete;

  void begin() {
    edge_.on_signal(SIGCHLD, [this](int) { reap(); });
    beat_timer_ = loop_.arm(loop_.now() + beat_every, *this);
    act(job_.begin(loop_.now()));
    work();
  }
  void on_signal(int signo, bool stops) { happened(UserSignal{signo, stops}); }
  [[nodiscard]] const RemoteJob& job() const { return job_; }

  void write_own(std::string_view line) {
    console(Stream::err).write(line);
    pause_or_resume();
  }

  void on_readable(int fd) override {
    const auto found = readers_.find(fd);
    if (found == readers_.end()) return;
    take_in(found->second.first, found->second.second);
    pause_or_resume();
  }
  void on_writable(int fd) override {
    for (agent::Console& one : consoles_) {
      if (one.fd() == fd) {
        one.push();
        return pause_or_resume();
      }
    }
    if (const auto found = writers_.find(fd); found != writers_.end()) feed(hosts_[found->second]);
  }
  void on_timer(TimerId timer) override {
    if (timer == job_timer_) {
      job_timer_ = {};
      happened(RemoteTimer{});
      return;
    }
    for (HostProcess& process : hosts_) {
      if (process.up) tell(process, alive_line);
    }
    beat_timer_ = loop_.arm(loop_.now() + beat_every, *this);
  }

 private:
  agent::Console& console(Stream stream) { return consoles_.at(static_cast<std::size_t>(stream)); }

  // --- stepping ---

  void happened(RemoteEvent event) {
    events_.push_back(std::move(event));
    work();
  }
  void work() {
    if (working_) return;
    working_ = true;
    while (!events_.empty()) {
      const RemoteEvent event = std::move(events_.front());
      events_.pop_front();
      act(job_.step(loop_.now(), event));
    }
    working_ = false;
  }

  void act(const RemoteActions& actions) {
    for (const RemoteAction& action : actions) {
      std::visit(Overloaded{
                     [&](const RunHost& a) { run(static_cast<std::size_t>(a.node)); },
                     [&](const PassSignal& a) { tell(at(a.node), signal_line(a.signo)); },
                     [&](const HangUp& a) { hang_up(at(a.node)); },
                     [&](const SignalHost& a) {
                       if (at(a.node).pid > 0) kill(at(a.node).pid, a.signo);
                     },
                     [&](const ArmRemoteTimer& a) {
                       loop_.disarm(job_timer_);
                       job_timer_ = loop_.arm(a.at, *this);
                     },
                     [&](const RemoteEnded&) { loop_.stop(); },
                     [&](const agent::Say& a) { log::warning(a.text); },
                 },
                 action);
    }
  }
  HostProcess& at(int node) { return hosts_[static_cast<std::size_t>(node)]; }

  // --- processes ---

  void run(std::size_t node) {
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
      edge_.watch(fd, true, false, *this);
    }
    writers_[process.input] = node;
    tell(process, host.script);
  }

  void tell(HostProcess& process, std::string_view text) {
    if (process.input < 0) return;
    process.unsent.append(text);
    feed(process);
  }

  void feed(HostProcess& process) {
    while (!process.unsent.empty()) {
      const ssize_t wrote = write(process.input, process.unsent.data(), process.unsent.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0 && errno == EAGAIN) return edge_.watch(process.input, false, true, *this);
      if (wrote < 0) break;  // it has ended, which we are about to hear
      process.unsent.erase(0, static_cast<std::size_t>(wrote));
    }
    process.unsent.clear();
    edge_.unwatch(process.input);
  }

  void hang_up(HostProcess& process) {
    if (process.input < 0) return;
    edge_.unwatch(process.input);
    writers_.erase(process.input);
    close(process.input);
    process.input = -1;
    process.unsent.clear();
  }

  void close_all(HostProcess& process) {
    hang_up(process);
    for (HostProcess::Output& output : process.outputs) end(output);
  }

  void end(HostProcess::Output& output) {
    if (output.fd < 0) return;
    edge_.unwatch(output.fd);
    readers_.erase(output.fd);
    close(output.fd);
    output.fd = -1;
  }

  void reap() {
    for (std::size_t node = 0; node < hosts_.size(); ++node) {
      HostProcess& process = hosts_[node];
      int status = 0;
      if (process.pid <= 0 || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
      process.pid = 0;
      process.up = false;
      // All it wrote is in the pipes; who else may hold these (a shared connection of ssh's) is not waited
      // for.
      for (const Stream stream : {Stream::out, Stream::err}) {
        constexpr int most_reads = 64;
        for (int i = 0; i < most_reads && take_in(node, stream); ++i) {
        }
        end(process.outputs.at(static_cast<std::size_t>(stream)));
      }
      hang_up(process);
      happened(
          HostGone{static_cast<int>(node), agent::ExitStatus::from_wait_status(status), process.tail.text()});
    }
    pause_or_resume();
  }

  // --- what they say ---

  // False: nothing more is there now.
  bool take_in(std::size_t node, Stream stream) {
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
        pass_on(node, stream, std::string(beginning).append(rest));
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

  void pass_on(std::size_t node, Stream stream, std::string_view lines) {
    HostProcess& process = hosts_[node];
    for (const StreamPart& part : process.outputs.at(static_cast<std::size_t>(stream)).content.take(lines)) {
      if (part.kind == StreamPart::Kind::message) {
        hear(node, stream, part.message);
        continue;
      }
      if (stream == Stream::err) process.tail.add(part.text);
      if (part.kind == StreamPart::Kind::output) console(stream).write(part.text);
    }
  }

  void hear(std::size_t node, Stream stream, const AgentMessage& message) {
    if (message.kind != AgentMessage::Kind::ready) {
      happened(HostSaid{static_cast<int>(node), message});
    } else if (stream == Stream::err) {
      hosts_[node].up = true;
      happened(HostReady{static_cast<int>(node)});
    }
  }

  // Who writes to a console whose reader is slow has to wait, as in a shell's pipe.
  void pause_or_resume() {
    for (const Stream stream : {Stream::out, Stream::err}) {
      agent::Console& one = console(stream);
      const bool full = one.is_full();
      if (one.wants_writing()) {
        edge_.watch(one.fd(), false, true, *this);
      } else {
        edge_.unwatch(one.fd());
      }
      for (HostProcess& process : hosts_) {
        HostProcess::Output& output = process.outputs.at(static_cast<std::size_t>(stream));
        if (output.fd < 0 || output.paused == full) continue;
        output.paused = full;
        if (full) {
          edge_.unwatch(output.fd);
        } else {
          edge_.watch(output.fd, true, false, *this);
        }
      }
    }
  }

  const RemotePlan& plan_;
  RemoteJob job_;
  UvLoop& loop_;
  agent::UvEdge& edge_;
  std::array<agent::Console, 2>& consoles_;
  std::vector<HostProcess> hosts_;                         // by node rank
  std::map<int, std::pair<std::size_t, Stream>> readers_;  // by descriptor
  std::map<int, std::size_t> writers_;                     // likewise
  std::deque<RemoteEvent> events_;
  bool working_ = false;
  TimerId job_timer_;
  TimerId beat_timer_;
};

// --- from what was asked for to a plan ---

Result<std::vector<HostEntry>> named_hosts(const Options& asked, const Outside& outside) {
  if (!asked.hosts.empty()) return parse_hosts(asked.hosts, find(asked.settings, "hosts")->from);
  auto text = outside.read_file(asked.hostfile);
  if (!text) {
    return usage(find(asked.settings, "hostfile")->from + ": cannot read " + asked.hostfile, text.error().why,
                 "check the path");
  }
  return parse_host_file(*text, asked.hostfile);
}

// As its user sees it, where that is the same directory: the way through a link or an automounter is more
// likely to exist on the other hosts.
std::string working_directory(const EnvironmentMap& environment) {
  struct stat named {};
  struct stat real {};
  const auto pwd = environment.find("PWD");
  if (pwd != environment.end() && pwd->second.starts_with('/') && stat(pwd->second.c_str(), &named) == 0 &&
      stat(".", &real) == 0 && named.st_dev == real.st_dev && named.st_ino == real.st_ino)
    return pwd->second;
  std::error_code failed;
  const auto path = std::filesystem::current_path(failed);
  return failed ? "/" : path.string();
}

Result<RemotePlan> plan_for_hosts(const Options& asked, const Outside& outside, Random& random) {
  auto all = named_hosts(asked, outside);
  if (!all) return std::move(all).error();
  auto hosts = chosen_hosts(asked, std::move(*all));
  if (!hosts) return std::move(hosts).error();

  RemoteFacts facts;
  std::error_code failed;
  facts.executable = std::filesystem::read_symlink("/proc/self/exe", failed).string();
  if (failed) {
    return Error{ErrorKind::io, "cannot find out where this dlaunch is", "", failed.message(),
                 "is /proc mounted?"};
  }
  facts.environment = outside.around.environment;
  facts.folder = working_directory(facts.environment);
  facts.here = are_this_machine(*hosts);
  facts.random = random.next();
  facts.terms.key = "k" + std::to_string(random.next());
  facts.terms.terminal_out = isatty(STDOUT_FILENO) != 0;
  facts.terms.terminal_err = isatty(STDERR_FILENO) != 0;
  const auto no_color = facts.environment.find("NO_COLOR");
  facts.terms.colours = no_color == facts.environment.end() || no_color->second.empty();
  const bool some_are_elsewhere = std::count(facts.here.begin(), facts.here.end(), false) > 0;
  if (auto found = find_program(asked.ssh.front()); some_are_elsewhere && !found) {
    return std::move(found).error().with_hint(
        "install it (openssh-client), or name the remote shell with --ssh");
  }
  return make_remote_plan(asked, *hosts, facts);
}

void say_what_is_odd(const Options& asked, const EnvironmentMap& environment) {
  for (const std::string& line : asked.warnings) log::warning(line);
  for (const std::string& name : asked.exports) {
    if (name.find('=') == std::string::npos && !environment.contains(name))
      log::warning("--export: " + name + " is not set here, and is left as it is on the hosts");
  }
}

void handle_signals(const Options& asked, agent::UvEdge& edge, RemoteRunner& runner) {
  const auto stops = [&](int signo) {
    return std::find(asked.stop_signals.begin(), asked.stop_signals.end(), signo) != asked.stop_signals.end();
  };
  for (const int signo : asked.stop_signals) {
    struct sigaction before {};
    sigaction(signo, nullptr, &before);
    if (before.sa_handler == SIG_IGN && signo == SIGHUP) continue;  // nohup meant it
    edge.on_signal(signo, [&runner](int number) { runner.on_signal(number, true); });
  }
  for (const int signo : passed_signals) {
    if (!stops(signo)) edge.on_signal(signo, [&runner](int number) { runner.on_signal(number, false); });
  }
  edge.on_signal(SIGTSTP, [](int) {
    log::warning("not suspended: the other hosts would take the silence for this dlaunch's end");
  });
}

// The end as a report, where the hosts' own dlaunch do not know it.
JobReport own_report(const RemotePlan& plan, const Options& asked, const RemoteOutcome& outcome,
                     std::int64_t began_unix_ms) {
  JobReport report;
  report.job = plan.job;
  report.node.host = plan.hosts.front().name;
  report.node.command = asked.program;
  report.outcome.failed = true;
  report.outcome.exit_code = outcome.exit_code;
  report.outcome.cause = *outcome.cause;
  report.began_unix_ms = began_unix_ms;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  report.ended_unix_ms = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  return report;
}

}  // namespace

int run_on_hosts(const Options& asked, const Outside& outside) {
  UvLoop loop;
  auto plan = plan_for_hosts(asked, outside, loop);
  if (!plan) return fail(plan.error());
  if (!asked.report.empty()) {
    if (auto writable = check_writable(asked.report); !writable) return fail(writable.error());
  }
  if (asked.dry_run) return print(describe(*plan));
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();

  timespec began{};
  clock_gettime(CLOCK_REALTIME, &began);
  std::array<agent::Console, 2> consoles{agent::Console(STDOUT_FILENO), agent::Console(STDERR_FILENO)};
  RemoteOutcome outcome;
  {
    agent::UvEdge edge(loop);
    RemoteRunner runner(*plan, asked.preempt_signal == 0 ? Duration::zero() : asked.preempt_notice, loop,
                        edge, consoles);
    log::start("dlaunch", asked.verbose ? log::Level::debug : log::Level::info, isatty(STDERR_FILENO) != 0,
               [&runner](std::string_view line) { runner.write_own(line); });
    say_what_is_odd(asked, outside.around.environment);
    handle_signals(asked, edge, runner);
    runner.begin();
    loop.run();
    outcome = runner.job().outcome();
    std::string json = outcome.json;
    if (outcome.cause) {
      const JobReport report =
          own_report(*plan, asked, outcome, began.tv_sec * 1000 + began.tv_nsec / 1'000'000);
      outcome.report = end_report(report);
      json = report_json(report);
    }
    for (const std::string& paragraph : outcome.report) log::error(paragraph);
    if (!asked.report.empty() && !json.empty()) {
      const auto written = write_whole(asked.report, json);
      if (!written) log::warning(written.error().message());
    }
    log::stop();
  }
  for (agent::Console& console : consoles) console.push_all();
  return outcome.exit_code;
}

}  // namespace dlaunch::launcher
