// Which ranks of a group share memory.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::run_processes;

constexpr int memory_ranks = 3;

bool has_mapped_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (contains(line, "/memfd:dlaunch")) return true;
  }
  return false;
}

// "shared", "messages", or what is wrong.
std::string sum_over(const std::string& backend) {
  dlaunch::InitOptions options;
  options.backend = backend;
  dlaunch::init_process_group(options);
  for (const std::size_t count : {std::size_t{1}, std::size_t{100'000}}) {
    std::vector<float> values(count, 2);
    dlaunch::all_reduce(Tensor::of(values));
    if (values != std::vector<float>(count, 2 * memory_ranks)) return "wrong sum";
    std::vector<float> all(count * memory_ranks);
    dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(values));
    if (all != std::vector<float>(count * memory_ranks, 2 * memory_ranks)) return "wrong values";
  }
  std::string result = has_mapped_memory() ? "shared" : "messages";
  dlaunch::destroy_process_group();
  return result;
}

TEST(HostMemory, RanksOfAHostShareMemory) {
  for (const std::string backend : {"gloo", "shm"}) {
    for (const auto& result : run_processes(memory_ranks, [&](int) { return sum_over(backend); })) {
      EXPECT_EQ(result.said, "shared") << backend;
    }
  }
}

TEST(HostMemory, WithoutDirectReadsTheResultsAreTheSame) {
  const auto results = run_processes(memory_ranks, [](int rank) {
    setenv("DLAUNCH_SHM_DIRECT", rank == 1 ? "0" : "1", 1);
    return sum_over("gloo");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "shared");
}

TEST(HostMemory, IfOneRankDoesNotShareTheOthersDo) {
  for (const int odd : {0, 1, 2}) {
    const auto results = run_processes(memory_ranks, [odd](int rank) {
      if (rank == odd) setenv("DLAUNCH_SHM", "0", 1);
      return sum_over("gloo");
    });
    for (int rank = 0; rank < memory_ranks; ++rank)
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, rank == odd ? "messages" : "shared");
  }
}

TEST(HostMemory, IfOnlyOneRankWouldShareAllUseMessages) {
  const auto results = run_processes(memory_ranks, [](int rank) {
    if (rank != 1) setenv("DLAUNCH_SHM", "0", 1);
    return sum_over("gloo");
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "messages");
}

TEST(HostMemory, TheBackendShmRejectsAGroupInWhichOneDoesNot) {
  const auto results = run_processes(memory_ranks, [](int rank) {
    if (rank == 2) setenv("DLAUNCH_SHM", "0", 1);
    return error_of([] { sum_over("shm"); });
  });
  for (const auto& result : results) {
    EXPECT_TRUE(contains(result.said,
                         "rank 2 shares no memory with rank 0: DLAUNCH_SHM is 0; use the backend gloo, "
                         "which needs no shared memory"))
        << result.said;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Pages of this process in memory that are its own.
std::size_t own_pages() {
  std::size_t mapped = 0;
  std::size_t resident = 0;
  std::size_t shared = 0;
  std::ifstream("/proc/self/statm") >> mapped >> resident >> shared;
  return resident - shared;
}

// 4 or 5 pages; with the memory of the messages by which the group was formed it was 8.
TEST(HostMemory, AGroupThatHasSentNothingCostsLessThanSixPages) {
  const auto results = run_processes(memory_ranks, [](int) {
    constexpr std::size_t count = 200;
    dlaunch::init_process_group({.backend = "gloo"});
    std::vector<dlaunch::ProcessGroup> groups = {dlaunch::new_group()};
    const std::size_t before = own_pages();
    while (groups.size() <= count) groups.push_back(dlaunch::new_group());
    const std::size_t pages = own_pages() - before;
    dlaunch::destroy_process_group();
    return pages < 6 * count ? std::string("few") : std::to_string(pages);
  });
  for (const auto& result : results) EXPECT_EQ(result.said, "few");
}
#endif

}  // namespace
