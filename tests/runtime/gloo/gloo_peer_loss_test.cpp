// A process dies: every rank that depends on it gets an error that names it.

#include <dlaunch/distributed.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::any_source;
using dlaunch::Tensor;
using dlaunch::Work;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::run_processes;
using dlaunch::test::Shared;

// Gloo writes to its connections without MSG_NOSIGNAL.
TEST(PeerLoss, IsAnErrorAndRaisesNoSigpipe) {
  const ProcessBarrier ready(2);
  const auto results = run_processes(2, [&](int rank) -> std::string {
    std::signal(SIGPIPE, SIG_DFL);
    dlaunch::init_process_group();
    ready.meet();
    if (rank == 1) raise(SIGKILL);
    std::vector<float> values(1000);
    const std::string error = error_of([&] {
      for (;;) dlaunch::send(Tensor::of(values), 1);
    });
    return contains(error, "died") ? "ok" : error;
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_EQ(results[0].status, 0);
}

TEST(PeerLoss, KeepsTheSigpipeHandlerOfTheProgram) {
  expect_all_say(run_processes(1,
                               [](int) -> std::string {
                                 const auto own = [](int) {};
                                 std::signal(SIGPIPE, own);
                                 dlaunch::init_process_group();
                                 dlaunch::destroy_process_group();
                                 return std::signal(SIGPIPE, SIG_DFL) == +own ? "ok" : "replaced";
                               }),
                 "ok");
}

// Gloo wakes neither a rank that has received a part of a message, nor one that waits for another rank.
TEST(PeerLoss, DuringAMessageFailsEveryRank) {
  constexpr std::size_t count = std::size_t{16} << 20;
  const Shared<float> received(count);
  const auto results = run_processes(4, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> nothing(1);
    if (rank == 3) {
      const std::vector<float> values(count, 1);
      const Work sent = dlaunch::isend(Tensor::of(values), 0);
      std::atomic_ref begun(*received.data());
      while (begun.load() == 0) std::this_thread::yield();
      raise(SIGKILL);
    }
    return error_of([&] {
      if (rank == 0) {
        dlaunch::recv(Tensor::from(received.data(), {static_cast<std::int64_t>(count)}), 3);
        dlaunch::recv(Tensor::of(nothing), 3);  // if all of it has arrived
      }
      dlaunch::recv(Tensor::of(nothing), 3 - rank);  // ranks 1 and 2 wait for each other
    });
  });
  for (int rank = 0; rank < 3; ++rank) {
    const std::string& said = results[static_cast<std::size_t>(rank)].said;
    EXPECT_TRUE(contains(said, "peer 3") || contains(said, "rank 3")) << said;
  }
}

// A child inherits the connections; while it has them they do not end, and no peer notices the death.
// `start_child(until)`: the child lives until a byte comes from `until`.
void expect_death_noticed_beside_a_child(void (*start_child)(int until)) {
  int until[2];
  ASSERT_EQ(pipe2(until, O_CLOEXEC), 0);
  const ProcessBarrier ready(2);
  const auto results = run_processes(2, [&](int rank) -> std::string {
    dlaunch::InitOptions options;
    options.timeout = std::chrono::seconds(30);
    dlaunch::init_process_group(options);
    if (rank == 1) start_child(until[0]);
    ready.meet();
    if (rank == 1) raise(SIGKILL);
    std::vector<float> values(1);
    const std::string error = error_of([&] { dlaunch::recv(Tensor::of(values), 1); });
    return write(until[1], "x", 1) == 1 ? error : "no pipe";
  });
  close(until[0]);
  close(until[1]);
  EXPECT_TRUE(contains(results[0].said, "died")) << results[0].said;
}

TEST(PeerLoss, IsDetectedWhileAForkedChildLives) {
  expect_death_noticed_beside_a_child([](int until) {
    if (fork() != 0) return;
    alarm(60);  // if no byte comes
    char byte = 0;
    _exit(read(until, &byte, 1) == 1 ? 0 : 1);
  });
}

TEST(PeerLoss, IsDetectedWhileAStartedProgramLives) {
  expect_death_noticed_beside_a_child([](int until) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, until, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = "head";
    std::string how_much = "-c1";
    char* const arguments[] = {program.data(), how_much.data(), nullptr};
    EXPECT_EQ(posix_spawnp(nullptr, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
  });
}

TEST(Destroy, DoesNotWaitForLostPeers) {
  const ProcessBarrier ready(3);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    const dlaunch::ProcessGroup second = dlaunch::new_group();
    std::vector<float> values(100000);
    std::vector<Work> works = {dlaunch::irecv(Tensor::of(values), any_source)};
    ready.meet();
    if (rank == 2) raise(SIGKILL);
    dlaunch::destroy_process_group();
    return dlaunch::is_initialized() ? "initialized" : "ok";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_EQ(results[1].said, "ok");
}

}  // namespace
