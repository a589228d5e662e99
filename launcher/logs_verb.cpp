#include "launcher/logs_verb.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "agent/line_prefix.h"
#include "agent/lines.h"
#include "launcher/job_list.h"
#include "launcher/values.h"
#include "launcher/verb_line.h"
#include "launcher/verb_output.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int look_again_ms = 100;
constexpr std::string_view attempt_mark = "attempt_";

std::atomic<bool> interrupted = false;

// "attempt_12" -> 12, "3" -> 3.
std::optional<int> number_behind(std::string_view name, std::string_view mark) {
  int number = 0;
  if (!name.starts_with(mark)) return std::nullopt;
  name.remove_prefix(mark.size());
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (failure != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

std::vector<int> numbered(const fs::path& folder, std::string_view mark) {
  std::vector<int> numbers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (const auto number = number_behind(entry.path().filename().string(), mark)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// One log file that may still grow, be turned over, or not be there yet.
class Follower {
 public:
  Follower(std::string path, int local_rank)
      : path_(std::move(path)), prefix_("[" + std::to_string(local_rank) + "] ") {}
  ~Follower() { close_file(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // What has come since the last call, in whole lines.
  std::string news() {
    std::string out;
    read_on(out);
    // Turned over: the rest of the old file has been read, the new one begins.
    struct stat there {};
    if (fd_ >= 0 && stat(path_.c_str(), &there) == 0 && there.st_ino != inode_) {
      close_file();
      read_on(out);
    }
    return out;
  }
  std::string rest() {
    std::string out;
    lines_.finish([&](std::string_view beginning, std::string_view end) { add(beginning, end, out); });
    return out;
  }

 private:
  void read_on(std::string& out) {
    if (fd_ < 0) {
      fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      struct stat info {};
      if (fd_ < 0 || fstat(fd_, &info) != 0) return;
      inode_ = info.st_ino;
    }
    char chunk[1 << 16];
    for (ssize_t got = read(fd_, chunk, sizeof chunk); got > 0; got = read(fd_, chunk, sizeof chunk)) {
      lines_.cut({chunk, static_cast<std::size_t>(got)},
                 [&](std::string_view beginning, std::string_view rest) { add(beginning, rest, out); });
    }
  }
  void add(std::string_view beginning, std::string_view rest, std::string& out) const {
    agent::add_prefixed(std::string(beginning).append(rest), prefix_, out);
  }
  void close_file() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  const std::string path_;
  const std::string prefix_;
  agent::LineSplitter lines_;
  int fd_ = -1;
  ino_t inode_ = 0;
};

// The job's directory: of a running job, or the newest in --log-dir.
Result<fs::path> find_job_dir(const std::string& log_dir, const std::string& job) {
  const auto not_found = [](std::string what, std::string hint) {
    return Error{ErrorKind::not_found, std::move(what), "", "", std::move(hint)};
  };
  if (!log_dir.empty()) {
    const fs::path dir(log_dir);
    if (!numbered(dir, attempt_mark).empty()) return dir;
    if (!numbered(dir / "latest", attempt_mark).empty()) return dir / "latest";
    return not_found("no log files in " + log_dir,
                     "name the directory that the job's --log-dir named, or one below it");
  }
  std::vector<std::string> dirs;
  for (const agent::JobStatus& one : select_jobs(running_jobs(), job).jobs) {
    if (!one.log_dir.empty()) dirs.push_back(one.log_dir);
  }
  if (dirs.empty()) {
    return not_found(job.empty() ? "no job that runs on this machine writes log files"
                                 : "no job '" + job + "' that writes log files runs on this machine",
                     "for an ended one name its directory with --log-dir");
  }
  if (dirs.size() > 1) {
    return not_found("several jobs write log files: " + join(dirs, ", "),
                     "name one: dlaunch logs JOB, or --log-dir");
  }
  return fs::path(dirs.front());
}

void be_interruptible() {
  for (const int signo : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = true; };
    sigaction(signo, &action, nullptr);
  }
}

int show(const std::vector<std::unique_ptr<Follower>>& files, bool follow) {
  if (follow) be_interruptible();
  do {
    for (const auto& file : files) {
      if (const int failed = print(file->news()); failed != 0) return failed;
    }
    if (follow) poll(nullptr, 0, look_again_ms);
  } while (follow && !interrupted);
  for (const auto& file : files) {
    if (const int failed = print(file->rest()); failed != 0) return failed;
  }
  return 0;
}

}  // namespace

int run_logs(const std::vector<std::string>& arguments) {
  std::string log_dir;
  std::string rank;
  std::string attempt;
  bool follow = false;
  VerbLine line(
      "dlaunch logs",
      "dlaunch logs shows the log files that a job's workers write (--redirects, --tee), each line with "
      "its\nlocal rank before it: of a job that runs on this machine, or of the newest one in --log-dir.\n\n"
      "Usage: dlaunch logs [options] [JOB]");
  line.option("--log-dir", "DIR", "as the job was told, or a job's directory in it", log_dir);
  line.option("--rank", "N", "only this local rank", rank);
  line.option("--attempt", "N", "the workers after so many restarts [the last]", attempt);
  line.flag("-f,--follow", "go on with what is written from now on, until Ctrl-C", follow);
  auto parsed = line.parse(arguments);
  if (!parsed) return fail(parsed.error());
  if (const auto* help = std::get_if<JustPrint>(&*parsed)) return print(help->text);
  const auto& words = std::get<VerbLine::Words>(*parsed);
  if (words.size() > 1) return fail(mistake("logs takes one job", "see dlaunch logs --help"));
  constexpr int most = 1'000'000'000;
  const auto wanted_rank = rank.empty() ? Result<int>(-1) : number("--rank", rank, 0, most);
  if (!wanted_rank) return fail(wanted_rank.error());
  const auto wanted_attempt = attempt.empty() ? Result<int>(-1) : number("--attempt", attempt, 0, most);
  if (!wanted_attempt) return fail(wanted_attempt.error());

  auto job_dir = find_job_dir(log_dir, words.empty() ? "" : words[0]);
  if (!job_dir) return fail(job_dir.error());
  const std::vector<int> attempts = numbered(*job_dir, attempt_mark);
  if (attempts.empty()) return fail("no log files in " + job_dir->string() + " yet");
  const int chosen = *wanted_attempt < 0 ? attempts.back() : *wanted_attempt;
  const fs::path dir = *job_dir / (std::string(attempt_mark) + std::to_string(chosen));
  std::vector<std::unique_ptr<Follower>> files;
  for (const int local_rank : numbered(dir, "")) {
    if (*wanted_rank >= 0 && local_rank != *wanted_rank) continue;
    for (const char* name : {"stdout.log", "stderr.log"}) {
      files.push_back(
          std::make_unique<Follower>((dir / std::to_string(local_rank) / name).string(), local_rank));
    }
  }
  if (files.empty()) return fail("no such log files in " + dir.string());
  return show(files, follow);
}

}  // namespace dlaunch::launcher
