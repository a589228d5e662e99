#include "launcher/commands/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <map>

#include "launcher/commands/command_parser.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/job_table.h"
#include "launcher/commands/process_table.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/sanitize.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration first_look = std::chrono::milliseconds(200);  // a CPU load needs two readings

std::atomic<bool> interrupted = false;

// While this lives, the terminal shows its alternate screen, without echo, line editing and cursor.
class Screen {
 public:
  Screen() {
    if (tcgetattr(STDIN_FILENO, &before_) == 0) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      changed_ = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    }
    print("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    print("\x1b[?25h\x1b[?1049l");
    if (changed_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Shows as much of the text as fits.
  static int show(const std::string& text) {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) size = {24, 80, 0, 0};
    std::string frame = "\x1b[H";
    std::size_t at = 0;
    for (int row = 0; row + 1 < size.ws_row && at < text.size(); ++row) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      frame.append(text, at, std::min<std::size_t>(end - at, size.ws_col)).append("\x1b[K\r\n");
      at = end + 1;
    }
    return print(frame + "\x1b[J");
  }

 private:
  termios before_{};
  bool changed_ = false;
};

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + "M"; }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", share * 100);
  return text;
}

std::string late(const agent::WorkerStatus& worker) {
  if (worker.came_last == 0) return "-";
  return to_words(std::chrono::duration_cast<Duration>(std::chrono::duration<double>(worker.late_s)));
}

class Top {
 public:
  explicit Top(std::string job) : job_(std::move(job)) {}

  // CPU loads are averages since the last call.
  std::string view() {
    const JobList list = select_jobs(running_jobs(), job_);
    const ProcessTable processes = ProcessTable::read();
    const TimePoint now = steady_now();
    const double passed = std::max(1e-3, to_seconds(now - last_look_));
    last_look_ = now;
    std::map<std::int64_t, double> cpu;
    std::string text = list.jobs.empty() ? "no jobs run on this machine\n" : job_table(list.jobs);
    for (const agent::JobStatus& job : list.jobs) {
      std::vector<std::vector<std::string>> rows = {
          {"RANK", "PID", "STATE", "CPU", "MEMORY", "THREADS", "LATE", "LAST OUTPUT"}};
      for (const agent::WorkerStatus& worker : job.workers) {
        const ProcessUse use = processes.tree(static_cast<pid_t>(worker.pid));
        const auto before = cpu_.find(worker.pid);
        cpu[worker.pid] = use.cpu_s;
        const double load = before == cpu_.end() ? 0 : std::max(0.0, use.cpu_s - before->second) / passed;
        rows.push_back({std::to_string(worker.rank), worker.pid > 0 ? std::to_string(worker.pid) : "-",
                        sanitize_for_terminal(worker.state), percent(load), mebibytes(use.memory),
                        std::to_string(use.threads), late(worker),
                        sanitize_for_terminal(worker.last_output)});
      }
      if (rows.size() > 1) text += "\njob " + sanitize_for_terminal(job.job) + "\n" + columns(rows);
    }
    cpu_ = std::move(cpu);
    return text;
  }

 private:
  const std::string job_;
  TimePoint last_look_ = steady_now();
  std::map<std::int64_t, double> cpu_;  // seconds used so far, by worker
};

// Waits until the time has passed, a key is pressed, or a signal arrives. False: top must end.
bool pause(Duration time, bool keys) {
  const TimePoint until = steady_now() + time;
  while (!interrupted) {
    const std::int64_t left = to_millis(until - steady_now());
    if (left <= 0) return true;
    pollfd one{keys ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(left)) <= 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
  return false;
}

}  // namespace

int run_top(const std::vector<std::string>& arguments) {
  bool once = false;
  std::string interval = "1";
  CommandParser line(
      "dlaunch top",
      "dlaunch top shows the jobs on this machine and their workers live: the state of each, the CPU time "
      "and memory\nof it and its children, and its last line of output. q ends it. If the output is not a "
      "terminal, it prints\none snapshot.\n\nUsage: dlaunch top [options] [JOB]");
  line.flag("--once", "print one snapshot, then end", once);
  line.option("--interval", "S", "seconds between two updates [1]", interval);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() > 1) return fail(mistake("top takes one job", "see dlaunch top --help"));
  auto pause_time = seconds("--interval", interval);
  if (!pause_time) return fail(pause_time.error());

  const std::string name = words.empty() ? "" : words[0];
  if (!name.empty()) {
    if (const auto found = find_jobs(name); !found) return fail(found.error());
  }
  Top top(name);
  (void)top.view();
  if (once || isatty(STDOUT_FILENO) == 0) {
    pause(first_look, false);
    return print(top.view());
  }
  for (const int signo : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };  // without SA_RESTART, so it ends the pause
    sigaction(signo, &action, nullptr);
  }
  const Screen screen;
  pause(first_look, true);
  do {
    if (const int failed = Screen::show(top.view()); failed != 0) return failed;
  } while (pause(std::max(*pause_time, Duration(std::chrono::milliseconds(50))), isatty(STDIN_FILENO) != 0));
  return 0;
}

}  // namespace dlaunch::launcher
