#include "runtime/api/spawned_rank.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <latch>
#include <memory>
#include <string_view>
#include <thread>

#include "dlaunch/profiling.h"
#include "runtime/api/spawn_process.h"
#include "runtime/base/deadline.h"
#include "runtime/group/world.h"
#include "store/client/file_store.h"
#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

void set(std::string_view name, int value) {
  setenv(std::string(name).c_str(), std::to_string(value).c_str(), 1);
}

// Ends this process with its parent. It uses a thread, since the kernel's parent-death signal arrives already
// when the thread that forked has ended.
void end_with(pid_t parent) {
  const int handle = process_handle(parent);
  if (getppid() != parent) _exit(1);  // it has ended before
  if (handle < 0)
    throw DistError("spawn: the parent cannot be watched: " + std::string(std::strerror(errno)));
  // Signals are for the threads of the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::latch runs(1);
  std::thread([handle, &runs] {
    runs.count_down();
    pollfd ended{handle, POLLIN, 0};
    while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
    }
    if ((ended.revents & POLLIN) != 0) kill(getpid(), SIGKILL);
  }).detach();
  // A thread that starts may hold a lock of the allocator. If the rank forked then, its child would wait for
  // that lock for ever.
  runs.wait();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// A rank in the default group; -1: not known. Errors of other groups have the peer's rank in that group.
int blamed_rank(const ErrorContext& context) {
  const bool is_default =
      context.group.empty() ||
      (world().is_initialized() && context.group == world().default_group()->description().name);
  return is_default ? context.peer : -1;
}

void send_report(int fd, const SpawnReport& report, const std::string& failure) {
  std::string message(reinterpret_cast<const char*>(&report), sizeof report);
  message += failure;
  message.resize(std::min<std::size_t>(message.size(), PIPE_BUF));  // the write neither blocks nor is cut
  [[maybe_unused]] const ssize_t ignored = write(fd, message.data(), message.size());
}

}  // namespace

int run_as_rank(const SpawnOrder& order, int report_fd, const std::function<void(int rank)>& body) {
  set(env::rank, order.rank);
  set(env::local_rank, order.rank);
  set(env::world_size, order.size);
  set(env::local_world_size, order.size);
  SpawnReport report;
  std::string failure;
  try {
    end_with(order.parent);
    FileStoreOptions store;
    store.path = order.file;
    store.world_size = order.size;
    world().set_preset({order.rank, order.size, std::make_shared<FileStore>(store), "gloo"});
    body(order.rank);
  } catch (const DistNetworkError& e) {
    report = {true, blamed_rank(e.context()), 0};
    failure = e.what();
  } catch (const std::exception& e) {
    failure = e.what();
    if (failure.empty()) failure = "an exception without a message";
  } catch (...) {
    failure = "an exception of an unknown type";
  }
  report.thrown_ns = steady_ns();
  if (failure.empty()) world().leave();
  stop_trace();
  std::fflush(nullptr);
  if (!failure.empty()) send_report(report_fd, report, failure);
  return failure.empty() ? 0 : 1;
}

}  // namespace dlaunch::internal
