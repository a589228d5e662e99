#include "launcher/commands/log_locator.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <system_error>

#include "agent/output/log_dir.h"
#include "agent/output/rank_links.h"
#include "launcher/commands/job_list.h"
#include "launcher/flags/value_parsers.h"
#include "store/base/number.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

Error not_found(std::string what, std::string hint) {
  return {ErrorKind::not_found, std::move(what), "", "", std::move(hint)};
}

std::optional<int> number_behind(std::string_view name, std::string_view mark) {
  if (!name.starts_with(mark)) return std::nullopt;
  return parse_number<int>(name.substr(mark.size()));
}

// In a shared directory, another user may have made a directory with such a name.
bool is_own(const struct stat& info) {
  return S_ISDIR(info.st_mode) && (info.st_uid == geteuid() || geteuid() == 0);
}

bool later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

// The job's directory with the latest round; of any job if no id is given.
std::optional<fs::path> newest(const fs::path& parent, const std::string& job, bool is_temporary) {
  std::optional<fs::path> found;
  timespec when{};
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(parent, failed)) {
    struct stat info {};
    if (!agent::is_log_dir_of(entry.path().filename().string(), job, is_temporary)) continue;
    if (lstat(entry.path().c_str(), &info) != 0 || !is_own(info)) continue;
    if (numbered(entry.path(), attempt_mark).empty()) continue;
    if (found && !later(info.st_mtim, when)) continue;
    found = entry.path();
    when = info.st_mtim;
  }
  return found;
}

// `dir`: the job's own --log-dir, or the directory of one job in it.
Result<LogLocation> in_named(const fs::path& dir, const std::string& job) {
  if (!numbered(dir, attempt_mark).empty()) {
    if (job.empty() || agent::is_log_dir_of(fs::absolute(dir).filename().string(), job, false) ||
        agent::is_log_dir_of(fs::absolute(dir).filename().string(), job, true))
      return LogLocation{dir};
    return not_found(dir.string() + " holds the log files of a job other than '" + job + "'",
                     "leave JOB out, or name the parent directory");
  }
  if (job.empty() && !numbered(dir / "latest", attempt_mark).empty()) {
    std::error_code failed;
    const fs::path target = fs::canonical(dir / "latest", failed);
    return LogLocation{failed ? dir / "latest" : target};
  }
  if (const auto found = newest(dir, job, false)) return LogLocation{*found};
  return not_found("no log files " + (job.empty() ? "" : "of a job '" + job + "' ") + "in " + dir.string(),
                   "give the value of the job's own --log-dir, or a directory in it");
}

// The locations of the running jobs that `job` may mean.
std::vector<LogLocation> running(const std::string& job) {
  std::vector<LogLocation> locations;
  for (const agent::JobStatus& one : select_jobs(running_jobs(), job).jobs) {
    if (!one.log_dir.empty()) locations.push_back({one.log_dir, {one.agent}});
  }
  return locations;
}

// Whether both are locations of one job: of one node, or of two nodes that link their files in one directory.
bool is_same_job(const LogLocation& a, const LogLocation& b) {
  std::error_code failed;
  if (fs::equivalent(a.dir, b.dir, failed)) return true;
  const auto ranks = find_ranks(a.dir);
  return ranks && find_ranks(b.dir) == ranks;
}

// The agents of `other` also write for the job of `location`.
void add_agents(LogLocation& location, const LogLocation& other) {
  location.agents.insert(location.agents.end(), other.agents.begin(), other.agents.end());
}

// Whether a link in the folder leads to a file below `dir`.
bool leads_into(const fs::path& folder, const fs::path& dir) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    std::error_code ignored;
    const fs::path target = fs::read_symlink(entry.path(), ignored);
    if (std::find(target.begin(), target.end(), dir.filename()) != target.end()) return true;
  }
  return false;
}

std::string value_of(const EnvironmentMap& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace

std::vector<int> numbered(const fs::path& folder, std::string_view mark) {
  std::vector<int> numbers;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (const auto number = number_behind(entry.path().filename().string(), mark)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<fs::path> find_ranks(const fs::path& dir) {
  std::error_code failed;
  if (const fs::path own = agent::ranks_dir(dir, true); fs::is_directory(own, failed)) return own;
  const fs::path shared = agent::ranks_dir(dir, false);
  const std::vector<int> rounds = numbered(shared, "");
  const bool is_ours = std::any_of(rounds.rbegin(), rounds.rend(), [&](int round) {
    return leads_into(shared / std::to_string(round), dir);
  });
  return is_ours ? std::optional(shared) : std::nullopt;
}

Result<LogLocation> locate_logs(const std::string& log_dir, const std::string& job,
                                const EnvironmentMap& environment) {
  if (!log_dir.empty()) {
    auto location = in_named(log_dir, job);
    if (!location) return location;
    for (const LogLocation& one : running("")) {
      if (is_same_job(*location, one)) add_agents(*location, one);
    }
    return location;
  }
  std::vector<LogLocation> running_ones;
  for (LogLocation& one : running(job)) {
    const auto known = std::find_if(running_ones.begin(), running_ones.end(),
                                    [&](const LogLocation& other) { return is_same_job(one, other); });
    if (known == running_ones.end()) {
      running_ones.push_back(std::move(one));
    } else {
      add_agents(*known, one);
    }
  }
  if (running_ones.size() == 1) return running_ones.front();
  if (running_ones.size() > 1) {
    std::vector<std::string> dirs;
    dirs.reserve(running_ones.size());
    for (const LogLocation& one : running_ones) dirs.push_back(one.dir.string());
    return not_found("several jobs write log files: " + join(dirs, ", "),
                     "name one: dlaunch logs JOB (its agent's pid if the ids are equal), or --log-dir");
  }
  for (const char* name : {"DLAUNCH_LOG_DIR", "PET_LOG_DIR"}) {
    if (const std::string named = value_of(environment, name); !named.empty()) return in_named(named, job);
  }
  const std::string named = value_of(environment, "TMPDIR");
  if (const auto found = newest(named.empty() ? "/tmp" : named, job, true)) return LogLocation{*found};
  return not_found(job.empty() ? "no job on this machine has written log files"
                               : "no job '" + job + "' on this machine has written log files",
                   "if the job was started with --log-dir, name that directory: dlaunch logs --log-dir=DIR");
}

}  // namespace dlaunch::launcher
