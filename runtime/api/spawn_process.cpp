#include "runtime/api/spawn_process.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "dlaunch/error.h"
#include "runtime/api/spawn_message.h"

namespace dlaunch::internal {

namespace {

std::string why() { return std::strerror(errno); }

struct ReportPipe {
  OwnedDescriptor read_end;
  OwnedDescriptor write_end;
};

ReportPipe report_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw DistError("spawn: no pipe: " + why());
  return {OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1])};
}

// For a process that has begun to run.
void watch(SpawnedProcess& process) {
  process.handle = OwnedDescriptor(process_handle(process.pid));
  if (process.handle.get() >= 0) return;
  const std::string reason = why();
  kill(process.pid, SIGKILL);
  waitpid(process.pid, nullptr, 0);
  throw DistError("spawn: rank " + std::to_string(process.rank) + " cannot be watched: " + reason);
}

[[noreturn]] void refuse_start(int rank) {
  throw DistError("spawn: rank " + std::to_string(rank) + " cannot be started: " + why());
}

// What the process has reported; the pipe's other end may still be held by a child of its own.
std::string read_report(const SpawnedProcess& process) {
  char message[PIPE_BUF];
  fcntl(process.report.get(), F_SETFL, O_NONBLOCK);
  const ssize_t length = read(process.report.get(), message, sizeof message);
  return length > 0 ? std::string(message, static_cast<std::size_t>(length)) : std::string();
}

// Pointers to texts, as exec needs them.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// In the child of a process that may have other threads: it must not take a lock.
[[noreturn]] void exec_anew(char* const* arguments, char* const* environment, int order_fd, int report_fd,
                            const std::string& failure) {
  fcntl(order_fd, F_SETFD, 0);
  fcntl(report_fd, F_SETFD, 0);
  execve("/proc/self/exe", arguments, environment);
  const char* const reason = strerrordesc_np(errno);
  (void)!write(report_fd, failure.data(), failure.size());
  (void)!write(report_fd, reason, std::strlen(reason));
  _exit(1);
}

}  // namespace

int process_handle(pid_t pid) {
  // By its number: the C library of Debian 12 declares pidfd_open() so that C++ cannot link it.
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

RendezvousFolder::RendezvousFolder() {
  std::string name = std::filesystem::temp_directory_path() / "dlaunch_spawn.XXXXXX";
  if (!mkdtemp(name.data())) throw DistError("spawn: no temporary directory " + name + ": " + why());
  folder_ = name;
}

RendezvousFolder::~RendezvousFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

SpawnedProcess fork_rank(const SpawnOrder& order, const std::function<void(int rank)>& body) {
  ReportPipe report = report_pipe();
  SpawnedProcess process;
  process.rank = order.rank;
  process.pid = fork();
  if (process.pid < 0) refuse_start(order.rank);
  // Not exit(): the copied objects must be destroyed by the original process only.
  if (process.pid == 0) _exit(run_as_rank(order, report.write_end.get(), body));
  process.report = std::move(report.read_end);
  watch(process);
  return process;
}

SpawnedProcess exec_rank(const SpawnOrder& order, const std::string& function,
                         const std::vector<std::string>& arguments) {
  ReportPipe report = report_pipe();
  const OwnedDescriptor message(spawn_message({order, function, arguments}));
  std::vector<std::string> words = own_command_line();
  std::vector<std::string> variables = own_environment();
  variables.push_back(std::string(spawn_variable) + "=" + std::to_string(message.get()) + "," +
                      std::to_string(report.write_end.get()));
  const std::vector<char*> word_pointers = pointers(words);
  const std::vector<char*> variable_pointers = pointers(variables);
  const SpawnReport nothing_known;
  const std::string failure =
      spawn_begun + std::string(reinterpret_cast<const char*>(&nothing_known), sizeof nothing_known) +
      "its program cannot be executed again: ";
  SpawnedProcess process;
  process.rank = order.rank;
  process.by_exec = true;
  process.pid = fork();
  if (process.pid < 0) refuse_start(order.rank);
  if (process.pid == 0) {
    exec_anew(word_pointers.data(), variable_pointers.data(), message.get(), report.write_end.get(), failure);
  }
  process.report = std::move(report.read_end);
  watch(process);
  return process;
}

std::optional<RankFailure> reap(SpawnedProcess& process) {
  int status = 0;
  waitpid(process.pid, &status, 0);
  process.ended = true;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return RankFailure{process.rank,
                       "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")"};
  }
  std::string message = read_report(process);
  const std::string code = "ended with exit code " + std::to_string(WEXITSTATUS(status));
  if (process.by_exec) {
    if (message.empty()) {
      return RankFailure{process.rank, code +
                                           " and has not run its function; main() has to call "
                                           "dlaunch::run_if_spawned()"};
    }
    message.erase(0, spawn_begun.size());
  }
  if (WEXITSTATUS(status) == 0) return std::nullopt;
  SpawnReport report;
  if (message.size() <= sizeof report) return RankFailure{process.rank, code};
  std::memcpy(&report, message.data(), sizeof report);
  return RankFailure{process.rank, "failed: " + message.substr(sizeof report), report.blames_another,
                     report.peer, report.thrown_ns};
}

}  // namespace dlaunch::internal
