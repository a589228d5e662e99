#include "dlaunch/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "dlaunch/profiling.h"
#include "runtime/deadline.h"
#include "runtime/first_failure.h"
#include "runtime/world.h"
#include "store/contract/worker_env.h"
#include "store/file_store.h"

namespace dlaunch {
inline namespace v1 {

SpawnError::~SpawnError() = default;

}  // namespace v1

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

std::string why() { return std::strerror(errno); }

// Where the processes meet: a folder with a file of their own, gone when the last of its users is.
class MeetingPlace {
 public:
  MeetingPlace() {
    std::string name = std::filesystem::temp_directory_path() / "dlaunch_spawn.XXXXXX";
    if (!mkdtemp(name.data())) throw DistError("spawn: no temporary directory " + name + ": " + why());
    folder_ = name;
  }
  ~MeetingPlace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  [[nodiscard]] std::string file() const { return folder_ + "/store"; }

 private:
  std::string folder_;
};

void set(std::string_view name, int value) {
  setenv(std::string(name).c_str(), std::to_string(value).c_str(), 1);
}

int process_handle(pid_t pid) {
  // By its number: the C library of Debian 12 declares pidfd_open() so that C++ cannot link it.
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

// This process ends with its parent. By a thread, since the kernel's own signal at the death of a parent
// comes already when the thread has ended that forked.
void end_with(pid_t parent) {
  const int handle = process_handle(parent);
  if (getppid() != parent) _exit(1);  // it has ended before
  if (handle < 0) throw DistError("spawn: the parent cannot be watched: " + why());
  // Signals are for the threads of the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([handle] {
    pollfd ended{handle, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
    if ((ended.revents & POLLIN) != 0) kill(getpid(), SIGKILL);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// What a process tells of its end, in one write; the words of the error follow.
struct Report {
  bool blames_another;
  int peer;
  std::int64_t thrown_ns;
};

// A rank in the default group; -1: not known. Errors of other groups know the peer by its rank there.
int blamed_rank(const ErrorContext& context) {
  const bool is_default =
      context.group.empty() ||
      (world().is_initialized() && context.group == world().default_group()->description().name);
  return is_default ? context.peer : -1;
}

void tell(int fd, const Report& report, const std::string& failure) {
  std::string message(reinterpret_cast<const char*>(&report), sizeof report);
  message += failure;
  message.resize(std::min<std::size_t>(message.size(), PIPE_BUF));  // the write neither blocks nor is cut
  [[maybe_unused]] const ssize_t ignored = write(fd, message.data(), message.size());
}

// In the new process.
[[noreturn]] void be_rank(int rank, int size, pid_t parent, const std::string& file, int report_fd,
                          const std::function<void(int rank)>& body) {
  set(env::rank, rank);
  set(env::local_rank, rank);
  set(env::world_size, size);
  set(env::local_world_size, size);
  Report report{false, -1, 0};
  std::string failure;
  try {
    end_with(parent);
    FileStoreOptions store;
    store.path = file;
    store.world_size = size;
    world().set_preset({rank, size, std::make_shared<FileStore>(store), "gloo"});
    body(rank);
  } catch (const DistNetworkError& e) {
    report = {true, blamed_rank(e.context()), 0};
    failure = e.what();
  } catch (const std::exception& e) {
    failure = e.what();
    if (failure.empty()) failure = "an exception without words";
  } catch (...) {
    failure = "an exception of an unknown type";
  }
  report.thrown_ns = steady_ns();
  if (failure.empty()) world().leave();
  stop_trace();
  std::fflush(nullptr);
  if (!failure.empty()) tell(report_fd, report, failure);
  // Not exit: the destructors of what was copied belong to the process that was copied.
  _exit(failure.empty() ? 0 : 1);
}

struct Process {
  int rank = -1;
  pid_t pid = -1;
  Descriptor handle;  // a pidfd: readable when it has ended
  Descriptor report;  // what it threw
  bool ended = false;
};

Process start(int rank, int size, const std::string& file, const std::function<void(int rank)>& body) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) throw DistError("spawn: no pipe: " + why());
  Process process;
  process.rank = rank;
  process.report = Descriptor(report[0]);
  const Descriptor write_end(report[1]);
  const pid_t parent = getpid();
  process.pid = fork();
  if (process.pid < 0)
    throw DistError("spawn: rank " + std::to_string(rank) + " cannot be started: " + why());
  if (process.pid == 0) be_rank(rank, size, parent, file, write_end.get(), body);
  process.handle = Descriptor(process_handle(process.pid));
  if (process.handle.get() < 0) {
    const std::string reason = why();
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
    throw DistError("spawn: rank " + std::to_string(rank) + " cannot be watched: " + reason);
  }
  return process;
}

// Takes note that it has ended; what went wrong, or nothing.
std::optional<RankFailure> reap(Process& process) {
  int status = 0;
  waitpid(process.pid, &status, 0);
  process.ended = true;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return RankFailure{process.rank,
                       "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")"};
  }
  if (WEXITSTATUS(status) == 0) return std::nullopt;
  char message[PIPE_BUF];
  // The process has ended, but one of its own children may hold the other end.
  fcntl(process.report.get(), F_SETFL, O_NONBLOCK);
  const ssize_t length = read(process.report.get(), message, sizeof message);
  Report report{};
  if (length <= static_cast<ssize_t>(sizeof report))
    return RankFailure{process.rank, "ended with exit code " + std::to_string(WEXITSTATUS(status))};
  std::memcpy(&report, message, sizeof report);
  const std::string words(message + sizeof report, static_cast<std::size_t>(length) - sizeof report);
  return RankFailure{process.rank, "failed: " + words, report.blames_another, report.peer, report.thrown_ns};
}

// So long may one that has failed take to end after the others have noticed.
constexpr auto gathering = std::chrono::seconds(5);

}  // namespace

inline namespace v1 {

struct SpawnContext::State {
  SpawnOptions options;
  MeetingPlace place;
  std::vector<Process> processes;
  std::vector<int> well;              // ranks
  std::vector<RankFailure> failures;  // in the order in which they were seen
  Deadline gathered = Deadline::max();

  ~State() { end_all(std::chrono::milliseconds(0)); }

  // The ranks that have ended by the deadline, or none.
  std::vector<std::size_t> wait_for_any(Deadline deadline) {
    std::vector<pollfd> handles;
    std::vector<std::size_t> ranks;
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      if (processes[rank].ended) continue;
      handles.push_back({processes[rank].handle.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
    const auto left = std::min<std::chrono::milliseconds>(time_left(deadline), std::chrono::hours(24));
    std::vector<std::size_t> ended;
    if (handles.empty() || poll(handles.data(), handles.size(), static_cast<int>(left.count())) <= 0)
      return ended;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      if (handles[i].revents != 0) ended.push_back(ranks[i]);
    }
    return ended;
  }

  [[nodiscard]] bool all_ended() const {
    return std::ranges::all_of(processes, [](const Process& process) { return process.ended; });
  }

  void signal_all(int number) const {
    for (const Process& process : processes) {
      if (!process.ended) kill(process.pid, number);
    }
  }

  void end_all(std::chrono::milliseconds grace) {
    signal_all(SIGTERM);
    const Deadline deadline = deadline_after(grace);
    while (!all_ended() && !has_passed(deadline)) {
      for (const std::size_t rank : wait_for_any(deadline)) (void)reap(processes[rank]);
    }
    signal_all(SIGKILL);
    for (Process& process : processes) {
      if (!process.ended) (void)reap(process);
    }
  }

  // Whether any has ended by the deadline.
  bool look(Deadline deadline) {
    std::vector<RankFailure> seen;
    const std::vector<std::size_t> ended = wait_for_any(deadline);
    for (const std::size_t rank : ended) {
      if (auto failure = reap(processes[rank])) {
        seen.push_back(*std::move(failure));
      } else {
        well.push_back(processes[rank].rank);
      }
    }
    if (failures.empty() && !seen.empty()) gathered = deadline_after(gathering);
    std::ranges::stable_sort(seen, {}, &RankFailure::thrown_ns);
    failures.insert(failures.end(), seen.begin(), seen.end());
    return !ended.empty();
  }

  // The failure to tell of, once it is known or time is up.
  [[nodiscard]] const RankFailure* verdict(bool time_is_up) const {
    if (failures.empty()) return nullptr;
    const FirstFailure first = first_failure(failures, well);
    return first.final || time_is_up || all_ended() ? first.failure : nullptr;
  }
};

SpawnContext::SpawnContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
SpawnContext::~SpawnContext() = default;
SpawnContext::SpawnContext(SpawnContext&& other) noexcept = default;
SpawnContext& SpawnContext::operator=(SpawnContext&& other) noexcept = default;

bool SpawnContext::join(std::optional<std::chrono::milliseconds> timeout) {
  const Deadline deadline = deadline_after(timeout.value_or(longest_timeout));
  for (bool time_is_up = false;;) {
    if (const RankFailure* const first = state_->verdict(time_is_up)) {
      state_->end_all(state_->options.grace);
      throw SpawnError("rank " + std::to_string(first->rank) + " " + first->problem,
                       {.rank = first->rank, .operation = "spawn"});
    }
    if (state_->all_ended()) return true;
    if (time_is_up) return false;
    const Deadline next = std::min(deadline, state_->gathered);
    time_is_up = !state_->look(next) && has_passed(next);
  }
}

std::vector<int> SpawnContext::pids() const {
  std::vector<int> result;
  for (const Process& process : state_->processes) result.push_back(process.pid);
  return result;
}

SpawnContext start_processes(const std::function<void(int rank)>& body, int nprocs,
                             const SpawnOptions& options) {
  if (nprocs < 1) throw DistError("spawn: there must be a process at least");
  auto state = std::make_unique<SpawnContext::State>();
  state->options = options;
  std::fflush(nullptr);  // or each process would write it again
  for (int rank = 0; rank < nprocs; ++rank) {
    state->processes.push_back(start(rank, nprocs, state->place.file(), body));
  }
  return SpawnContext(std::move(state));
}

void spawn(const std::function<void(int rank)>& body, int nprocs, const SpawnOptions& options) {
  start_processes(body, nprocs, options).join();
}

}  // namespace v1
}  // namespace dlaunch
