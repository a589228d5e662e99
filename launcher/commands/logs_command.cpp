#include "launcher/commands/logs_command.h"

#include <poll.h>

#include <array>
#include <csignal>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "agent/output/rank_links.h"
#include "launcher/commands/command_parser.h"
#include "launcher/commands/interruption.h"
#include "launcher/commands/log_locator.h"
#include "launcher/commands/log_reader.h"
#include "launcher/commands/process_handle.h"
#include "launcher/console/command_io.h"
#include "launcher/flags/value_parsers.h"
#include "launcher/machine/machine.h"
#include "launcher/machine/process_limits.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

constexpr Duration look_again = std::chrono::milliseconds(100);

// Which of a job's log files the user wants.
struct Wanted {
  std::optional<int> rank;     // none: all; without links by rank, the local rank
  std::optional<int> attempt;  // none: the last, and later ones
};

// The log files of one job, which may still appear: of all nodes, through the links by rank. Without links (a
// newer job of the same id has them) those of one node, by local rank.
class JobLogs {
 public:
  JobLogs(fs::path dir, Wanted wanted) : dir_(std::move(dir)), wanted_(wanted) {}

  // Finds new files, and prints the new lines of all files.
  void print_new_lines() {
    find_files();
    for (auto& [path, reader] : readers_) reader->read_new_lines();
  }
  void finish() {
    for (auto& [path, reader] : readers_) reader->finish();
  }
  [[nodiscard]] bool found() const { return !readers_.empty(); }
  [[nodiscard]] bool printed_something() const { return printed_something_; }
  // The exit code of printing; 0: everything was printed.
  [[nodiscard]] int failure() const { return failure_; }

 private:
  void find_files() {
    // A node links a file before it creates the file: if there are files, there are links.
    std::vector<int> attempts = numbered(dir_, attempt_mark);
    if (attempts.empty()) return;
    if (!ranks_) ranks_ = find_ranks(dir_).value_or("");
    if (!ranks_->empty()) attempts = numbered(*ranks_, "");
    if (attempts.empty()) return;
    const int first = wanted_.attempt.value_or(newest_.value_or(attempts.back()));
    for (const int attempt : attempts) {
      if (attempt < first || (wanted_.attempt && attempt > first)) continue;
      if (ranks_->empty()) {
        find_files_of_node(attempt);
      } else {
        find_files_of_all(attempt);
      }
    }
    newest_ = attempts.back();
  }
  void find_files_of_all(int attempt) {
    // Keep the folder of the first world seen: a later one with this number belongs to another job.
    std::error_code failed;
    const auto [known, is_new] = rounds_.try_emplace(attempt);
    if (is_new) known->second = fs::canonical(*ranks_ / std::to_string(attempt), failed);
    const fs::path& folder = known->second;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
      for (const int stream : {0, 1}) {
        const int rank = agent::rank_of_link(entry.path().filename().string(), stream == 0 ? "out" : "err");
        if (rank < 0) continue;
        std::error_code gone;
        // Rotated files are beside the file, not beside the link.
        const fs::path file = (folder / fs::read_symlink(entry.path(), gone)).lexically_normal();
        if (!gone) read({attempt, rank, stream}, file);
      }
    }
  }
  void find_files_of_node(int attempt) {
    const fs::path dir = dir_ / (std::string(attempt_mark) + std::to_string(attempt));
    for (const int local_rank : numbered(dir, "")) {
      for (const int stream : {0, 1}) {
        read({attempt, local_rank, stream},
             dir / std::to_string(local_rank) / (stream == 0 ? "stdout.log" : "stderr.log"));
      }
    }
  }
  // By attempt, rank, and stream, stdout first: the order in which they are shown.
  void read(const std::array<int, 3>& which, const fs::path& file) {
    const int rank = which[1];
    if (wanted_.rank && rank != *wanted_.rank) return;
    auto& reader = readers_[which];
    if (reader) return;
    reader = std::make_unique<LogReader>(file.string(), "[" + std::to_string(rank) + "] ",
                                         [this](const std::string& lines) { show(lines); });
  }
  void show(const std::string& lines) {
    printed_something_ = true;
    if (failure_ == 0) failure_ = print(lines);
  }

  const fs::path dir_;
  const Wanted wanted_;
  std::optional<fs::path> ranks_;  // empty: there are no links
  std::map<int, fs::path> rounds_;
  std::optional<int> newest_;
  std::map<std::array<int, 3>, std::unique_ptr<LogReader>> readers_;
  bool printed_something_ = false;
  int failure_ = 0;
};

// Follows until all agents of the job on this machine have ended; if there are none, until Ctrl-C.
void follow(JobLogs& logs, const LogLocation& location) {
  std::list<ProcessHandle> agents;
  for (const std::int64_t agent : location.agents) agents.emplace_back(agent);
  for (bool ended = false; !ended && !interrupted && logs.failure() == 0;) {
    if (agents.empty()) {
      poll(nullptr, 0, static_cast<int>(to_millis(look_again)));
    } else if (!agents.front().found() || agents.front().ended_within(look_again)) {
      agents.pop_front();
      ended = agents.empty();
    }
    logs.print_new_lines();
  }
}

Result<std::optional<int>> number_or_none(const std::string& name, const std::string& text) {
  constexpr int most = 1'000'000'000;
  if (text.empty()) return std::optional<int>{};
  auto value = number(name, text, 0, most);
  if (!value) return std::move(value).error();
  return std::optional(*value);
}

}  // namespace

int run_logs(const std::vector<std::string>& arguments) {
  std::string log_dir;
  std::string rank;
  std::string attempt;
  bool follows = false;
  CommandParser line(
      "dlaunch logs",
      "dlaunch logs shows the log files of a job's workers (--redirects, --tee). Each line begins with "
      "the rank.\nJOB is a running job on this machine, or the newest one that has ended, searched in "
      "--log-dir,\nDLAUNCH_LOG_DIR or the temporary directory. If nodes share a --log-dir, all their files "
      "are shown.\n\nUsage: dlaunch logs [options] [JOB]");
  line.option("--log-dir", "DIR", "search here: the job's own --log-dir, or the directory of one job in it",
              log_dir);
  line.option("--rank", "N", "only this rank", rank);
  line.option("--attempt", "N", "only this round: the N of attempt_N [the last, and later ones]", attempt);
  line.flag("-f,--follow", "keep printing new lines until the job ends, or Ctrl-C", follows);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<PrintAndExit>(&*parsed)) return print(help->text);
  const auto& words = std::get<CommandParser::Words>(*parsed);
  if (words.size() > 1) return fail(mistake("logs takes one job", "see dlaunch logs --help"));
  const auto wanted_rank = number_or_none("--rank", rank);
  if (!wanted_rank) return fail(wanted_rank.error());
  const auto wanted_attempt = number_or_none("--attempt", attempt);
  if (!wanted_attempt) return fail(wanted_attempt.error());

  const auto location = locate_logs(log_dir, words.empty() ? "" : words[0], environment());
  if (!location) return fail(location.error());
  raise_descriptor_limit();
  if (follows) catch_interrupts({SIGINT, SIGTERM});
  JobLogs logs(location->dir, {*wanted_rank, *wanted_attempt});
  logs.print_new_lines();
  // If no directory was named and no agent runs, the job has ended: its files do not grow.
  const bool may_grow = !location->agents.empty() || !log_dir.empty();
  if (follows && may_grow) follow(logs, *location);
  logs.finish();
  if (!logs.found())
    return fail("there are no such log files in " + location->dir.string() + (follows ? "" : " yet"));
  if (!logs.printed_something() && !follows)
    note("the log files in " + location->dir.string() + " are empty so far");
  return logs.failure();
}

}  // namespace dlaunch::launcher
