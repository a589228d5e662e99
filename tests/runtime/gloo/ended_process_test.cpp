// A rank's process has ended, and its connections stay open: here since a child holds them, too, in use since
// the kernel frees the memory of a large process for long before it closes them. The other ranks of the host
// get an error that names it all the same.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::run_processes;

constexpr int ranks = 3;
constexpr int victim = 1;
constexpr const char* has_ended = "its process has ended";

// A process that the ranks start and the test ends.
class Holder {
 public:
  Holder()
      : pid_(static_cast<pid_t*>(
            mmap(nullptr, sizeof(pid_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Holder() {
    if (*pid_ > 0) kill(*pid_, SIGKILL);
    munmap(pid_, sizeof(pid_t));
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Keeps the sockets of the calling process. Not fork(): after that the library closes them.
  void hold_sockets() const {
    const auto pid = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (pid > 0) *pid_ = pid;
    if (pid != 0) return;
    constexpr int most_descriptors = 1024;
    for (int fd = 0; fd < most_descriptors; ++fd) {
      int type = 0;
      socklen_t size = sizeof type;
      if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) close(fd);
    }
    alarm(120);  // if the test itself is killed
    for (;;) pause();
  }

 private:
  pid_t* const pid_;
};

// All ranks do it after a first all_reduce; the victim calls `last_words` and is killed instead.
void expect_error(
    const std::string& reason, const std::function<void()>& operation,
    const std::function<void()>& last_words = [] {}) {
  const Holder holder;
  const auto results = run_processes(ranks, [&](int rank) -> std::string {
    dlaunch::InitOptions options;
    options.timeout = std::chrono::seconds(20);
    dlaunch::init_process_group(options);
    std::vector<float> values(4, 1);
    dlaunch::all_reduce(Tensor::of(values));
    dlaunch::barrier();
    if (rank == victim) {
      holder.hold_sockets();
      last_words();
      kill(getpid(), SIGKILL);
    }
    const std::string error = error_of(operation);
    return contains(error, "peer " + std::to_string(victim)) && contains(error, reason) ? "ok" : error;
  });
  for (const int rank : {0, 2}) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "ok");
}

TEST(EndedProcess, IsNamedInACollective) {
  expect_error(has_ended, [] {
    std::vector<float> values(4, 1);
    dlaunch::all_reduce(Tensor::of(values));
  });
}

TEST(EndedProcess, IsNamedInALongCollective) {
  expect_error(has_ended, [] {
    std::vector<float> values(1'000'000, 1);
    dlaunch::all_reduce(Tensor::of(values));
  });
}

TEST(EndedProcess, IsNamedInAMessage) {
  expect_error(has_ended, [] {
    float value = 0;
    dlaunch::recv(Tensor::from(&value, {1}), victim);
  });
}

TEST(EndedProcess, IsNamedWhileAnOperationIsAwaited) {
  expect_error(has_ended, [] {
    float value = 0;
    dlaunch::irecv(Tensor::from(&value, {1}), victim).wait();
  });
}

// What it has said before counts.
TEST(EndedProcess, HasLeftInOrderBefore) {
  expect_error(
      "it has left the group", [] { dlaunch::barrier(); }, [] { dlaunch::destroy_process_group(); });
}

}  // namespace
