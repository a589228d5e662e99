#include "launcher/commands/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>
#include <tuple>
#include <utility>

#include "agent/model/node_ranks.h"
#include "agent/model/rank_history.h"
#include "agent/observe/worker_looks.h"
#include "launcher/commands/command_parser.h"
#include "launcher/commands/interruption.h"
#include "launcher/commands/job_list.h"
#include "launcher/commands/process_table.h"
#include "launcher/commands/top_view.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/node/wall_clock.h"
#include "launcher/report/clock_time.h"
#include "store/client/steady_time.h"

namespace dlaunch::launcher {
namespace {

constexpr Duration first_look = std::chrono::milliseconds(200);  // a CPU load needs two readings

constexpr std::size_t width_of_file = 200;

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

  struct Size {
    std::size_t width = 80;
    std::size_t height = 24;
  };
  static Size size() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return {};
    return {size.ws_col, size.ws_row};
  }
  // REQUIRES: the text fits.
  static int show(const std::string& text) {
    std::string frame = "\x1b[H";
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      frame.append(at == 0 ? "" : "\r\n").append(text, at, end - at).append("\x1b[K");
      at = end + 1;
    }
    return print(frame + "\x1b[J");
  }

 private:
  termios before_{};
  bool changed_ = false;
};

class Top {
 public:
  explicit Top(std::string job) : job_(std::move(job)) {}

  // CPU loads and states are those since the last call.
  TopScreen look() {
    JobList list = select_jobs(running_jobs(), job_);
    const ProcessTable processes = ProcessTable::read();
    const TimePoint now = steady_now();
    const double passed = std::max(1e-3, to_seconds(now - last_look_));
    last_look_ = now;
    std::map<std::int64_t, double> cpu;
    std::map<std::int64_t, Seen> seen;
    TopScreen screen;
    for (agent::JobStatus& job : list.jobs) {
      Seen& history = seen[job.agent] = std::move(seen_[job.agent]);
      const auto looks = agent::look_at_workers(job, job.pages_dir);
      if (!looks.empty() && std::exchange(history.round, job.round) != job.round)
        history.ranks.begin_round(now - in_seconds(job.state_age_s));
      history.ranks.look(now, looks);
      TopJob shown{std::move(job), {}, {}};
      shown.node = agent::node_ranks(shown.status, history.ranks);
      for (const agent::RankView& rank : shown.node.ranks) {
        const ProcessUse use = processes.tree(static_cast<pid_t>(rank.pid));
        const auto before = cpu_.find(rank.pid);
        cpu[rank.pid] = use.cpu_s;
        const double load = before == cpu_.end() ? 0 : std::max(0.0, use.cpu_s - before->second) / passed;
        shown.uses.push_back({load, use.memory});
      }
      screen.jobs.push_back(std::move(shown));
    }
    cpu_ = std::move(cpu);
    seen_ = std::move(seen);
    screen.time = clock_time(unix_ms());
    screen.load.resize(3);
    screen.load.resize(static_cast<std::size_t>(std::max(0, getloadavg(screen.load.data(), 3))));
    screen.processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
    return screen;
  }

 private:
  // Of one agent.
  struct Seen {
    int round = -1;
    agent::RankHistory ranks;
  };
  static Duration in_seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

  const std::string job_;
  TimePoint last_look_ = steady_now();
  std::map<std::int64_t, double> cpu_;  // seconds used so far, by worker
  std::map<std::int64_t, Seen> seen_;   // by agent
};

enum class Pause { over, key, end };

// Waits until the time has passed, a key of top's is pressed, or top must end.
Pause pause(Duration time, bool has_keys, TopStyle& style) {
  const TimePoint until = steady_now() + time;
  while (!interrupted) {
    const std::int64_t left = to_millis(until - steady_now());
    if (left <= 0) return Pause::over;
    pollfd one{has_keys ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&one, 1, static_cast<int>(left)) <= 0) continue;
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return Pause::end;
    if (apply_key(key, style)) return Pause::key;
  }
  return Pause::end;
}

int show_live(Top& top, TopStyle style, Duration interval) {
  catch_interrupts({SIGINT, SIGTERM, SIGHUP});
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
  const char* const no_color = std::getenv("NO_COLOR");
  style.colours = no_color == nullptr || *no_color == '\0';
  const bool has_keys = isatty(STDIN_FILENO) != 0;
  const Screen terminal;
  if (pause(first_look, has_keys, style) == Pause::end) return 0;
  TopScreen screen = top.look();
  for (;;) {
    std::tie(style.width, style.height) = std::pair(Screen::size().width, Screen::size().height);
    if (const int failed = Screen::show(top_text(screen, style)); failed != 0) return failed;
    const Pause how = pause(interval, has_keys, style);
    if (how == Pause::end) return 0;
    if (how == Pause::over) screen = top.look();
  }
}

}  // namespace

int run_top(const std::vector<std::string>& arguments) {
  bool once = false;
  std::string interval = "1";
  std::string sort = "rank";
  CommandParser line(
      "dlaunch top",
      "dlaunch top shows the jobs on this machine and their workers live: which rank waits for which, the "
      "state and\noperation of each, its CPU time and memory with its children, and its last line of output. "
      "The last line shows\nthe keys; q ends it. If the output is not a terminal, it prints one snapshot.\n\n"
      "Usage: dlaunch top [options] [JOB]");
  line.flag("--once", "print one snapshot, then end", once);
  line.option("--interval", "S", "seconds between two updates [1]", interval);
  line.option("--sort", "ORDER", "rank, care (those to look at first), cpu, memory or late [rank]", sort);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() > 1) return fail(mistake("top takes one job", "see dlaunch top --help"));
  auto pause_time = seconds("--interval", interval);
  if (!pause_time) return fail(pause_time.error());
  TopStyle style;
  const auto order = top_order(sort);
  if (!order) return fail(mistake("--sort is '" + sort + "'", "it is rank, care, cpu, memory or late"));
  style.order = *order;

  const std::string name = words.empty() ? "" : words[0];
  if (!name.empty()) {
    if (const auto found = find_jobs(name); !found) return fail(found.error());
  }
  Top top(name);
  (void)top.look();
  if (!once && isatty(STDOUT_FILENO) != 0)
    return show_live(top, style, std::max(*pause_time, Duration(std::chrono::milliseconds(50))));
  pause(first_look, false, style);
  style.width = isatty(STDOUT_FILENO) != 0 ? Screen::size().width : width_of_file;
  return print(top_text(top.look(), style));
}

}  // namespace dlaunch::launcher
