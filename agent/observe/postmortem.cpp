#include "agent/observe/postmortem.h"

#include <sys/statvfs.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "agent/model/error_file.h"
#include "agent/observe/stderr_hints.h"
#include "agent/output/log_dir.h"
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

Postmortem::Postmortem(std::string scratch_dir, std::string log_dir, Warn warn)
    : scratch_dir_(std::move(scratch_dir)),
      log_dir_(std::move(log_dir)),
      warn_(std::move(warn)),
      refusals_(task_limits().refusals) {}

void Postmortem::begin() {
  if (begun_) return;
  begun_ = true;
  oom_.begin();
}

void Postmortem::examine(ProcKey key, std::int64_t pid, bool killed, WorkerExit& exit) {
  const std::int64_t now_ns = unix_ns();
  exit.unix_ms = now_ns / ns_per_ms;
  read_error_file(key, now_ns, exit);
  if (killed) return;
  if (const auto sent = sent_ ? sent_(key) : std::nullopt) {
    const bool obeyed = exit.status.shell_code() == 128 + sent->signo;
    add_hint(exit,
             obeyed ? sent->why : "it had received " + signal_name(sent->signo) + " because " + sent->why);
    if (obeyed) return;
  }
  add_hint(exit, hint_from_output(exit.tail, exit.status));
  add_hint(exit, oom_.explain(pid, exit.status));
  add_hint(exit, explain_refusals(now_ns));
  if (exit.status.shell_code() == 128 + SIGBUS) add_hint(exit, about_shared_memory());
}

// Workers that reach the limit do so together, but their ends are reported one after the other.
std::string Postmortem::explain_refusals(std::int64_t now_ns) {
  const TaskLimits limits = task_limits();
  if (limits.refusals > refusals_) refused_until_unix_ns_ = now_ns + ns_per_s;
  refusals_ = limits.refusals;
  if (now_ns >= refused_until_unix_ns_) return "";
  return "a limit on processes and threads was reached meanwhile (" + limits.describe +
         "): raise pids.max of the cgroup of this container or service";
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
