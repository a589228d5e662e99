#include "agent/observe/postmortem.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "agent/model/error_file.h"
#include "agent/model/worker_record.h"
#include "agent/observe/crash_report.h"
#include "agent/observe/exit_facts.h"
#include "agent/observe/memory_events.h"
#include "agent/observe/stderr_hints.h"
#include "agent/output/log_dir.h"
#include "agent/platform/reaper.h"
#include "store/base/small_file.h"
#include "store/base/task_limits.h"

namespace dlaunch::agent {
namespace {

constexpr std::int64_t ns_per_s = 1'000'000'000;
constexpr std::int64_t ns_per_ms = 1'000'000;

std::int64_t unix_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * ns_per_s + now.tv_nsec;
}

// SIGBUS ends a process if there is no room for a page of a mapped file in /dev/shm.
std::string about_shared_memory() {
  struct statvfs shm {};
  constexpr std::uint64_t small = 1ULL << 30;
  constexpr std::uint64_t rest = 1ULL << 20;
  if (statvfs("/dev/shm", &shm) != 0) return "";
  const std::uint64_t size = std::uint64_t{shm.f_blocks} * shm.f_frsize;
  if (std::uint64_t{shm.f_bavail} * shm.f_frsize < rest) return "/dev/shm (" + in_bytes(size) + ") is full";
  if (size < small) return "/dev/shm may have been full: it has only " + in_bytes(size);
  return "";
}

std::string working_folder() {
  std::error_code failed;
  const std::string folder = std::filesystem::current_path(failed).string();
  return failed ? "" : folder;
}

// The resident memory of a process and its descendants, in bytes.
std::uint64_t memory_of(std::int64_t pid) {
  constexpr std::size_t longest = 256;
  const auto own = static_cast<pid_t>(pid);
  std::vector<pid_t> processes = descendants_of(own);
  processes.push_back(own);
  std::uint64_t pages = 0;
  for (const pid_t process : processes) {
    const auto file = read_plain_file("/proc/" + std::to_string(process) + "/statm", longest);
    if (!file) continue;
    std::istringstream numbers(file->text);
    std::uint64_t total = 0;
    std::uint64_t resident = 0;
    if (numbers >> total >> resident) pages += resident;
  }
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Only a convenience for readers of the logs. If it fails, the report still has the exception.
void keep(const std::string& text, const std::string& dir) {
  std::error_code failed;
  std::filesystem::create_directories(dir, failed);
  std::ofstream(dir + "/" + std::string(kept_error_file), std::ios::binary) << text;
}

void add_hint(WorkerExit& exit, const std::string& hint) {
  if (!hint.empty()) exit.hint += (exit.hint.empty() ? "" : "; ") + hint;
}

}  // namespace

Postmortem::Postmortem(std::string scratch_dir, std::string log_dir, Warn warn, Node node)
    : scratch_dir_(std::move(scratch_dir)),
      log_dir_(std::move(log_dir)),
      warn_(std::move(warn)),
      node_(std::move(node)),
      folder_(working_folder()),
      refusals_(task_limits().refusals) {}

void Postmortem::begin() {
  if (begun_) return;
  begun_ = true;
  oom_.begin();
}

void Postmortem::on_started(ProcKey key, std::int64_t pid) {
  begin();
  if (const auto found = running_.find(key); found != running_.end()) found->second.pid = pid;
}

void Postmortem::examine(ProcKey key, std::int64_t pid, bool killed, WorkerExit& exit) {
  const std::int64_t now_ns = unix_ns();
  exit.unix_ms = now_ns / ns_per_ms;
  read_error_file(key, now_ns, exit);
  if (!killed) find_cause(key, pid, now_ns, exit);
  forget(key);
}

void Postmortem::find_cause(ProcKey key, std::int64_t pid, std::int64_t now_ns, WorkerExit& exit) {
  if (const auto sent = sent_ ? sent_(key) : std::nullopt) {
    const bool obeyed = exit.status.shell_code() == 128 + sent->signo;
    add_hint(exit,
             obeyed ? sent->why : "it had received " + signal_name(sent->signo) + " because " + sent->why);
    if (obeyed) return;
  }
  ExitFacts facts;
  facts.host = node_.host;
  facts.command = node_.command;
  facts.folder = folder_;
  facts.pid = pid;
  explain_crash(key, pid, exit, facts);
  const OomWatch::Finding memory = oom_.explain(pid, exit.status);
  add_hint(exit, memory.cause);
  facts.was_killed_by_another = memory.by_another;
  if (memory.is_out_of_memory) facts.out_of_memory = memory_by_rank(key, exit, memory.limit);
  const std::string refusals = explain_refusals(now_ns);
  add_hint(exit, refusals);
  if (!refusals.empty()) facts.task_limit = task_limits().describe;
  if (exit.status.shell_code() == 128 + SIGBUS) {
    const std::string shared_memory = about_shared_memory();
    add_hint(exit, shared_memory);
    facts.shared_memory_full = !shared_memory.empty();
  }
  collect_facts(exit.tail, facts);
  exit.remedy = remedy_of_exit(exit.status, exit.tail, facts);
}

// The page shows more than the last lines.
void Postmortem::explain_crash(ProcKey key, std::int64_t pid, WorkerExit& exit, ExitFacts& facts) const {
  const auto crash = node_.pages_dir.empty()
                         ? std::nullopt
                         : read_crash(worker_page_path(node_.pages_dir, key.round, key.local_rank));
  if (!crash || crash->pid != pid) return add_hint(exit, hint_from_output(exit.tail, exit.status));
  add_hint(exit, cause_of(*crash));
  if (exit.traceback.empty()) exit.traceback = stack_of(*crash);
  facts.source_lines_command = source_lines_command(*crash);
}

// Right after the end: the others have not been stopped yet.
OutOfMemory Postmortem::memory_by_rank(ProcKey key, const WorkerExit& exit,
                                       std::optional<std::uint64_t> limit) const {
  constexpr std::size_t most = 16;
  OutOfMemory memory{limit, {}};
  const auto failed = running_.find(key);
  if (failed != running_.end() && exit.most_memory > 0)
    memory.ranks.push_back({failed->second.rank, exit.most_memory, true});
  for (const auto& [other, running] : running_) {
    if (other.round != key.round || other == key || running.pid == 0) continue;
    if (memory.ranks.size() >= most) break;
    if (const std::uint64_t bytes = memory_of(running.pid); bytes > 0)
      memory.ranks.push_back({running.rank, bytes, false});
  }
  return memory;
}

// Workers that reach the limit do so together, but their ends are reported one after the other.
std::string Postmortem::explain_refusals(std::int64_t now_ns) {
  const TaskLimits limits = task_limits();
  if (limits.refusals > refusals_) refused_until_unix_ns_ = now_ns + ns_per_s;
  refusals_ = limits.refusals;
  if (now_ns >= refused_until_unix_ns_) return "";
  return "a limit on processes and threads was reached meanwhile (" + limits.describe + ")";
}

void Postmortem::read_error_file(ProcKey key, std::int64_t now_ns, WorkerExit& exit) const {
  if (scratch_dir_.empty()) return;
  const auto file =
      read_plain_file(error_file_path(scratch_dir_, key.round, key.local_rank), longest_error_file);
  if (!file || file->text.empty()) return;
  if (!log_dir_.empty()) keep(file->text, worker_log_dir(log_dir_, key.round, key.local_rank));
  auto parsed = parse_error_file(file->text);
  if (!parsed) {
    if (warn_) warn_("local rank " + std::to_string(key.local_rank) + ": " + parsed.error().message());
    return;
  }
  exit.exception = std::move(parsed->message);
  exit.traceback = std::move(parsed->traceback);
  exit.since_exception = since_exception(now_ns, file->written_ns, *parsed);
  exit.unix_ms = (now_ns - exit.since_exception->count()) / ns_per_ms;
}

}  // namespace dlaunch::agent
