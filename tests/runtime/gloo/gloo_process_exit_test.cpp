// Processes that end without destroy_process_group(), and their forked children.

#include <dlaunch/distributed.h>
#include <dlaunch/profiling.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/forked_copies.h"
#include "tests/runtime/gloo/operation_options.h"
#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::any_source;
using dlaunch::DistError;
using dlaunch::ReduceOp;
using dlaunch::Tensor;
using dlaunch::Work;
using dlaunch::test::async;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::run_processes;
using dlaunch::test::Shared;
using dlaunch::test::tagged;

// Static objects are destroyed while threads of the library still run, and a peer never comes.
TEST(ProcessExit, EndsWithoutDestroy) {
  constexpr std::size_t count = 1000000;
  const Shared<float> values(3 * count);  // lives until the process has ended, as the operations need it
  const ProcessBarrier ready(3);
  const ProcessBarrier all_wait(3);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    float* const own = values.data() + static_cast<std::size_t>(rank) * count;
    static std::vector<Work> works;
    dlaunch::init_process_group();
    ready.meet();
    if (rank != 2) {
      works.push_back(dlaunch::all_reduce(Tensor::from(own, {count}), ReduceOp::sum, async()));
    }
    works.push_back(dlaunch::irecv(Tensor::from(own, {1}), any_source, tagged(1)));
    all_wait.meet();
    std::exit(0);
  });
  expect_all_say(results, "");
}

// A rank that returns from main, or calls exit(), still delivers its last messages.
TEST(ProcessExit, WithoutDestroyDeliversCompletedOperations) {
  constexpr std::size_t size = 4;
  const std::vector<std::function<void(int)>> last_calls = {
      [](int) { dlaunch::barrier(); },
      [](int rank) {
        std::vector<float> values(4, static_cast<float>(rank));
        dlaunch::broadcast(Tensor::of(values), 0);
        if (values != std::vector<float>(4, 0)) throw DistError("wrong");
      },
      [](int) {
        std::vector<float> values(4, 1);
        dlaunch::all_reduce(Tensor::of(values));
        if (values != std::vector<float>(4, size)) throw DistError("wrong");
      },
      [](int) {
        std::vector<float> values(300000, 1);
        dlaunch::all_reduce(Tensor::of(values));
        if (values != std::vector<float>(values.size(), size)) throw DistError("wrong");
      },
      [](int rank) {
        const std::vector<int> own = {rank};
        std::vector<int> all(size);
        dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
        if (all != std::vector<int>{0, 1, 2, 3}) throw DistError("wrong");
      },
      [](int rank) {
        std::vector<int> values = {rank};
        if (rank == 0) {
          for (int peer = 1; peer < static_cast<int>(size); ++peer) dlaunch::send(Tensor::of(values), peer);
        } else {
          dlaunch::recv(Tensor::of(values), 0);
          if (values[0] != 0) throw DistError("wrong");
        }
      },
  };
  for (const auto& last_call : last_calls) {
    const auto results = run_processes(size, [&](int rank) -> std::string {
      dlaunch::init_process_group();
      (void)dlaunch::new_group();  // which also ends
      last_call(rank);
      std::exit(0);
    });
    expect_all_say(results, "");
  }
}

// The sender has ended before the receiver calls anything.
TEST(ProcessExit, SentMessageOutlivesItsSender) {
  for (const bool destroys : {false, true}) {
    static std::atomic<bool>* gone;
    const Shared<std::atomic<bool>> memory(1);
    gone = memory.data();
    const auto results = run_processes(2, [&](int rank) -> std::string {
      std::vector<int> value = {rank};
      if (rank == 1) {
        std::atexit([] { *gone = true; });  // the first registered runs last
        dlaunch::init_process_group();
        for (int i = 0; i < 3; ++i) dlaunch::send(Tensor::of(value), 0);
        if (destroys) dlaunch::destroy_process_group();
        std::exit(0);
      }
      dlaunch::init_process_group();
      while (!*gone) std::this_thread::yield();
      for (int i = 0; i < 3; ++i) {
        value = {7};
        dlaunch::recv(Tensor::of(value), 1);
        if (value[0] != 1) return "wrong";
      }
      dlaunch::destroy_process_group();
      return "";
    });
    expect_all_say(results, "");
  }
}

TEST(ProcessExit, WithoutDestroyCompletesTheTrace) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("dlaunch_trace_end_test." + std::to_string(getpid()));
  const auto results = run_processes(2, [&](int rank) -> std::string {
    dlaunch::start_trace(path + std::to_string(rank));
    dlaunch::init_process_group();
    dlaunch::barrier();
    std::exit(0);
  });
  expect_all_say(results, "");
  for (int rank = 0; rank < 2; ++rank) {
    const std::string file = path + std::to_string(rank);
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    std::filesystem::remove(file);
    EXPECT_TRUE(text.str().starts_with("[\n{") && text.str().ends_with("}\n]\n")) << text.str();
  }
}

// A forked child ends without a goodbye in its parent's name.
TEST(ProcessExit, ForkedChildDoesNotLeaveForItsParent) {
  if (dlaunch::test::copies_may_hang) GTEST_SKIP() << "AddressSanitizer's allocator may hang in a copy";
  expect_all_say(run_processes(2,
                               [](int) -> std::string {
                                 static bool is_copy = false;
                                 // Comes after what the library does, and before a leak checker, for which
                                 // the memory of threads that were not copied is lost.
                                 std::atexit([] {
                                   if (is_copy) _exit(0);
                                 });
                                 dlaunch::init_process_group();
                                 const pid_t copy = fork();
                                 is_copy = copy == 0;
                                 if (is_copy) std::exit(1);
                                 int status = -1;
                                 waitpid(copy, &status, 0);
                                 if (status != 0) return "the copy failed";
                                 dlaunch::barrier();
                                 dlaunch::destroy_process_group();
                                 return "ok";
                               }),
                 "ok");
}

// The errors of a child's calls; "" for each that is rejected. None may wait: nothing would end the wait.
std::string calls_of_a_copy(const dlaunch::ProcessGroup& group, const Work& unfinished) {
  std::vector<float> values(1);
  const Tensor tensor = Tensor::of(values);
  const dlaunch::OperationOptions async{.async_op = true, .timeout = {}};
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"all_reduce", [&] { dlaunch::all_reduce(tensor); }},
      {"async all_reduce", [&] { (void)group.all_reduce(tensor, dlaunch::ReduceOp::sum, async); }},
      {"barrier", [&] { group.barrier(); }},
      {"monitored_barrier", [&] { group.monitored_barrier(); }},
      {"send", [&] { dlaunch::send(tensor, 0); }},
      {"irecv", [&] { (void)group.irecv(tensor, any_source); }},
      {"batch_isend_irecv",
       [&] {
         (void)group.batch_isend_irecv(std::vector{dlaunch::P2POp{dlaunch::P2POp::Kind::isend, tensor, 0}});
       }},
      {"breakpoint", [&] { group.breakpoint(0); }},
      {"new_group", [&] { (void)dlaunch::new_group(); }},
      {"abort", [&] { group.abort("no"); }},
      {"abort_process_group", [&] { dlaunch::abort_process_group("no"); }},
      {"init_process_group", [&] { dlaunch::init_process_group(); }},
      {"wait", [&] { unfinished.wait(); }},
      {"is_completed", [&] { (void)unfinished.is_completed(); }},
      {"then", [&] { unfinished.then([](const Work&) {}); }},
  };
  std::string wrong;
  for (const auto& [name, call] : calls) {
    const std::string error = error_of(call);
    if (!contains(error, "this process was forked from the one that joined the group")) {
      wrong += std::string(name) + ": " + error + "; ";
    }
  }
  return wrong;
}

// A child that has left its parent's group may join another one.
std::string group_of_its_own() {
  const std::string path = testing::TempDir() + "own_group." + std::to_string(getpid());
  dlaunch::InitOptions options;
  options.init_method = "file://" + path;
  options.rank = 0;
  options.world_size = 1;
  dlaunch::init_process_group(options);
  std::vector<float> value = {3};
  dlaunch::all_reduce(Tensor::of(value));
  dlaunch::destroy_process_group();
  std::filesystem::remove(path);
  return value[0] == 3 ? "ok" : "wrong value in a group of its own";
}

TEST(ForkedChild, CallsAreRejectedAndTheParentContinues) {
  if (dlaunch::test::copies_may_hang) GTEST_SKIP() << "AddressSanitizer's allocator may hang in a copy";
  expect_all_say(
      run_processes(2,
                    [](int rank) -> std::string {
                      dlaunch::init_process_group();
                      const dlaunch::ProcessGroup group = dlaunch::new_group();
                      std::vector<float> into(1);
                      const Work unfinished = group.irecv(Tensor::of(into), 1 - rank);
                      const Work finished = group.barrier({.async_op = true, .timeout = {}});
                      finished.wait();
                      const pid_t copy = fork();
                      if (copy == 0) {
                        alarm(60);  // ends a call that waits
                        std::string wrong = calls_of_a_copy(group, unfinished);
                        if (dlaunch::get_rank() != rank) wrong += "another rank; ";
                        if (!finished.is_success()) wrong += "what had succeeded has not; ";
                        dlaunch::destroy_process_group(group);
                        dlaunch::destroy_process_group();
                        if (dlaunch::is_initialized()) wrong += "initialized; ";
                        if (const std::string alone = group_of_its_own(); alone != "ok") wrong += alone;
                        std::fputs(wrong.c_str(), stderr);
                        _exit(wrong.empty() ? 0 : 1);
                      }
                      int status = -1;
                      waitpid(copy, &status, 0);
                      group.barrier();  // the peer's child, too, has found its receive unfinished
                      std::vector<float> value = {static_cast<float>(rank)};
                      group.send(Tensor::of(value), 1 - rank);
                      unfinished.wait();
                      group.all_reduce(Tensor::of(value));
                      dlaunch::destroy_process_group();
                      if (status != 0) return "the copy failed";
                      return into[0] == static_cast<float>(1 - rank) && value[0] == 1 ? "ok" : "wrong values";
                    }),
      "ok");
}

// There is no peer to say goodbye to, and a second rank does not answer.
TEST(ProcessExit, DoesNotWaitForLostPeers) {
  const ProcessBarrier ready(2);
  const auto results = run_processes(2, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    ready.meet();
    if (rank == 1) raise(SIGKILL);
    std::exit(0);
  });
  EXPECT_EQ(results[0].said, "");
  EXPECT_EQ(results[0].status, 0);
}

}  // namespace
