// Memory that the program allocates and other ranks read in place.

#include <dlaunch/distributed.h>
#include <dlaunch/threads.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::ProcessGroup;
using dlaunch::ReduceOp;
using dlaunch::SharedMemory;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::run_processes;

constexpr int allocation_ranks = 3;
constexpr std::size_t counts[] = {0, 1, 5000, 300'000};

bool all_are(std::span<const float> values, float wanted) {
  return std::ranges::all_of(values, [wanted](float value) { return value == wanted; });
}

// Each call that reduces, of values in `memory`. Empty: all results are right.
std::string reduce_in(const SharedMemory& memory, const ProcessGroup& group, std::size_t count) {
  const auto size = static_cast<std::size_t>(group.size());
  const auto own = static_cast<float>(group.rank() + 1);
  const auto sum = static_cast<float>(size * (size + 1) / 2);
  const std::span<float> all = memory.as<float>().first(count * size);
  const std::span<float> values = all.first(count);
  std::ranges::fill(all, own);
  group.all_reduce(Tensor::of(values));
  if (!all_are(values, sum)) return "all_reduce";
  if (!all_are(all.subspan(count), own)) return "all_reduce changed other memory";
  std::ranges::fill(all, own * static_cast<float>(size));
  group.all_reduce(Tensor::of(values), ReduceOp::avg);
  if (!all_are(values, sum)) return "the average";
  std::ranges::fill(all, own);
  group.reduce(Tensor::of(values), 1);
  if (!all_are(values, group.rank() == 1 ? sum : own)) return "reduce";
  std::ranges::fill(all, own);
  std::vector<float> result(count);
  group.reduce_scatter_tensor(Tensor::of(result), Tensor::of(all));
  if (!all_are(result, sum) || !all_are(all, own)) return "reduce_scatter";
  const auto work = group.all_reduce(Tensor::of(all), ReduceOp::sum, {.async_op = true, .timeout = {}});
  work.wait();
  return all_are(all, sum) ? "" : "an asynchronous all_reduce";
}

std::string reduce_each_length(const ProcessGroup& group, bool is_shared) {
  for (const std::size_t count : counts) {
    const SharedMemory memory = group.allocate_shared(count * allocation_ranks * sizeof(float));
    if (memory.size() != count * allocation_ranks * sizeof(float)) return "another size";
    if (memory.is_shared() != (is_shared && count > 0)) return "is_shared() is wrong";
    if (!all_are(memory.as<float>(), 0)) return "not zeros";
    if (std::string wrong = reduce_in(memory, group, count); !wrong.empty())
      return wrong + " of " + std::to_string(count);
  }
  return "ok";
}

ProcessGroup world() { return dlaunch::new_group(); }

TEST(SharedAllocation, ResultsAreRight) {
  for (const std::string backend : {"gloo", "shm"}) {
    const auto results = run_processes(allocation_ranks, [&](int) {
      dlaunch::init_process_group({.backend = backend});
      std::string result = reduce_each_length(world(), true);
      dlaunch::destroy_process_group();
      return result;
    });
    for (const auto& result : results) EXPECT_EQ(result.said, "ok") << backend;
  }
}

TEST(SharedAllocation, IsOrdinaryMemoryIfTheGroupSharesNone) {
  const auto results = run_processes(allocation_ranks, [](int rank) {
    if (rank == 1) setenv("DLAUNCH_SHM", "0", 1);
    dlaunch::init_process_group();
    const ProcessGroup group = world();
    for (const std::size_t count : counts) {
      const SharedMemory memory = group.allocate_shared(count * allocation_ranks * sizeof(float));
      if (memory.is_shared() != (rank != 1 && count > 0)) return std::string("is_shared() is wrong");
      if (std::string wrong = reduce_in(memory, group, count); !wrong.empty()) return wrong;
    }
    dlaunch::destroy_process_group();
    return std::string("ok");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "ok");
}

TEST(SharedAllocation, ThreadsOfAProcessHaveOrdinaryMemory) {
  dlaunch::run_ranks_as_threads(allocation_ranks, [](int /*rank*/) {
    dlaunch::init_process_group({.backend = "threads"});
    EXPECT_EQ(reduce_each_length(world(), false), "ok");
    dlaunch::destroy_process_group();
  });
}

// Other groups of the same ranks read it in place, too; and so do those of the next world.
TEST(SharedAllocation, OutlivesItsGroup) {
  const auto results = run_processes(allocation_ranks, [](int rank) {
    dlaunch::init_process_group();
    const SharedMemory memory = dlaunch::allocate_shared(300'000 * allocation_ranks * sizeof(float));
    const std::vector<int> some{0, 2};
    const ProcessGroup part = dlaunch::new_group(some);
    if (rank != 1) {
      if (std::string wrong = reduce_in(memory, part, 300'000); !wrong.empty()) return wrong;
    }
    dlaunch::destroy_process_group();
    dlaunch::InitOptions second;
    second.group_name = "second";
    dlaunch::init_process_group(second);
    if (std::string wrong = reduce_in(memory, world(), 300'000); !wrong.empty()) return wrong;
    dlaunch::destroy_process_group();
    return std::string("ok");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "ok");
}

TEST(SharedAllocation, ARankThatIsNoMemberGetsOrdinaryMemory) {
  const auto results = run_processes(allocation_ranks, [](int rank) {
    dlaunch::init_process_group();
    const ProcessGroup part = dlaunch::new_group(std::vector<int>{0, 2});
    const bool is_shared = part.allocate_shared(100).is_shared();
    dlaunch::barrier();
    dlaunch::destroy_process_group();
    return std::string(is_shared == (rank != 1) ? "ok" : "is_shared() is wrong");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "ok");
}

// The parent's memory is as before, and still shared.
TEST(SharedAllocation, AForkedProcessDoesNoHarm) {
  const auto results = run_processes(allocation_ranks, [](int) {
    dlaunch::init_process_group();
    std::optional<SharedMemory> memory = dlaunch::allocate_shared(300'000 * allocation_ranks * sizeof(float));
    std::ranges::fill(memory->as<float>(), 1.0F);
    const pid_t child = fork();
    if (child == 0) {
      memory.reset();
      _exit(0);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child || status != 0) return std::string("the child failed");
    if (!all_are(memory->as<float>(), 1)) return std::string("the memory has changed");
    if (std::string wrong = reduce_in(*memory, world(), 300'000); !wrong.empty()) return wrong;
    dlaunch::destroy_process_group();
    return std::string("ok");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "ok");
}

#if !defined(__SANITIZE_ADDRESS__)  // which ends the process
TEST(SharedAllocation, MoreThanThereIsIsAnError) {
  const auto results = run_processes(1, [](int) {
    dlaunch::init_process_group();
    const std::string error = error_of([] { (void)dlaunch::allocate_shared(std::size_t{1} << 50U); });
    dlaunch::destroy_process_group();
    return error;
  });
  EXPECT_TRUE(contains(results[0].said, "there is no memory for 1125899906842624 bytes")) << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "allocate_shared")) << results[0].said;
}
#endif

TEST(SharedAllocation, AGroupThatHasEndedHasNone) {
  const auto results = run_processes(1, [](int) {
    dlaunch::init_process_group();
    const ProcessGroup group = world();
    dlaunch::destroy_process_group();
    return error_of([&] { (void)group.allocate_shared(1); });
  });
  EXPECT_TRUE(contains(results[0].said, "the group was destroyed")) << results[0].said;
}

}  // namespace
