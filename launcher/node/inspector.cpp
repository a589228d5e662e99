#include "launcher/node/inspector.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/model/flight_files.h"
#include "agent/observe/process_condition.h"
#include "launcher/machine/interpreter.h"
#include "launcher/node/containment.h"
#include "store/base/sanitize.h"

namespace dlaunch::launcher {
namespace {

namespace files = std::filesystem;

// More than the process gives itself.
constexpr Duration patience = std::chrono::seconds(30);

bool is_empty(const std::string& folder) {
  std::error_code failed;
  return files::is_empty(folder, failed) || failed;
}

}  // namespace

Inspector::Inspector(Dependencies dependencies, Config config)
    : dependencies_(dependencies),
      config_(std::move(config)),
      reader_(agent::FrameReader::from_coordinator()) {}

Inspector::~Inspector() { end(); }

void Inspector::inspect(std::uint32_t round, int world_size, const std::vector<agent::WorkerHere>& workers) {
  if (pid_ != 0 || !make_folder(round)) return config_.on_inspected(round, {});
  round_ = round;
  std::vector<std::string> command{own_path(),
                                   "dump",
                                   "--inspect",
                                   config_.scratch_dir,
                                   folder_,
                                   std::to_string(round),
                                   std::to_string(world_size)};
  running_.clear();
  for (const agent::WorkerHere& worker : workers) {
    if (worker.pid > 0 && agent::condition_of(worker.pid) == agent::Condition::runs)
      running_.push_back(static_cast<pid_t>(worker.pid));
    command.push_back(std::to_string(worker.local_rank) + ":" + std::to_string(worker.rank) + ":" +
                      std::to_string(worker.pid));
  }
  if (!start(command)) return config_.on_inspected(round, {});
  has_answered_ = false;
  reader_ = agent::FrameReader::from_coordinator();
  dependencies_.poller.watch(output_, true, false, *this);
  deadline_ = dependencies_.timers.arm(dependencies_.clock.now() + patience, *this);
}

// Only this user can read it.
bool Inspector::make_folder(std::uint32_t round) {
  if (!folder_.empty() && round == round_) return true;
  std::string path = config_.log_dir.empty() ? temporary_folder() + "/dlaunch-flight-XXXXXX"
                                             : config_.log_dir + "/flight_" + std::to_string(round);
  const bool made = config_.log_dir.empty() ? mkdtemp(path.data()) != nullptr
                                            : mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST;
  if (!made)
    config_.on_log(
        {agent::Severity::debug, "no folder for flight records: " + path + ": " + std::strerror(errno)});
  folder_ = made ? path : "";
  return made;
}

void Inspector::keep_folder() {
  if (folder_.empty()) return;
  if (is_empty(folder_)) {
    rmdir(folder_.c_str());
    folder_.clear();
  } else {
    kept_ = folder_;
  }
}

// In a process group of its own, with its debuggers.
bool Inspector::start(const std::vector<std::string>& command) {
  int pipe[2] = {-1, -1};
  if (pipe2(pipe, O_CLOEXEC) != 0) return false;
  fcntl(pipe[0], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int failed = posix_spawn(&pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe[1]);
  if (failed != 0) {
    pid_ = 0;
    close(pipe[0]);
    config_.on_log(
        {agent::Severity::debug, "cannot look at the workers: " + std::string(std::strerror(failed))});
    return false;
  }
  output_ = pipe[0];
  return true;
}

void Inspector::on_readable(int fd) {
  char chunk[16 * 1024];
  const ssize_t got = read(fd, chunk, sizeof chunk);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return end();
  reader_.append(as_byte_span(std::string_view(chunk, static_cast<std::size_t>(got))));
  while (true) {
    auto message = reader_.next();
    if (!message) return end();
    if (!*message) return;
    take(**message);
  }
}

void Inspector::take(const agent::Message& message) {
  if (const auto* inspected = std::get_if<agent::Inspected>(&message)) {
    const std::string before = std::exchange(kept_, "");
    keep_folder();
    if (!kept_.empty() && kept_ != before)
      config_.on_log({agent::Severity::info, "PyTorch's flight records are in " + kept_ + "; torchfrtrace " +
                                                 kept_ + " compares them"});
    has_answered_ = true;
    config_.on_inspected(inspected->round, inspected->groups);
  } else if (const auto* notice = std::get_if<agent::Notice>(&message)) {
    config_.on_log({agent::Severity::warning, sanitize_for_terminal(notice->text)});
  }
}

// A debugger that is killed while it attaches leaves its process stopped for good: it must go on. The process
// may be a child of the worker, in its process group.
void Inspector::on_timer(TimerId) {
  end();
  for (const pid_t worker : running_) kill(-worker, SIGCONT);
}

void Inspector::end() {
  if (pid_ == 0) return;
  dependencies_.timers.disarm(deadline_);
  dependencies_.poller.unwatch(output_);
  close(std::exchange(output_, -1));
  const pid_t pid = std::exchange(pid_, 0);
  kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  keep_folder();
  if (!std::exchange(has_answered_, true)) config_.on_inspected(round_, {});
}

void Inspector::finish() {
  has_answered_ = true;  // nobody waits for an answer any more
  end();
  if (config_.scratch_dir.empty()) return;
  std::error_code failed;
  for (files::directory_iterator entry(config_.scratch_dir, failed);
       !failed && entry != files::directory_iterator(); entry.increment(failed)) {
    const auto dumped = agent::parse_flight_file(entry->path().filename().string());
    if (!dumped || !make_folder(dumped->round)) continue;
    round_ = dumped->round;
    std::error_code lost;
    files::copy_file(entry->path(), folder_ + "/flight_rank_" + std::to_string(dumped->rank),
                     files::copy_options::overwrite_existing, lost);
  }
  keep_folder();
}

}  // namespace dlaunch::launcher
