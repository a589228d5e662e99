// Groups that are made while ranks die, come late or differ, over Gloo.

#include <dlaunch/debug.h>
#include <dlaunch/device_mesh.h>
#include <dlaunch/distributed.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"
#include "tests/store/client/reserved_port.h"
#include "tests/store/client/temporary_folder.h"

namespace {

using dlaunch::ProcessGroup;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::expect_all_say;
using dlaunch::test::host_name;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;

std::string add_up() {
  std::vector<int> one = {1};
  dlaunch::all_reduce(Tensor::of(one));
  const bool right = one[0] == dlaunch::get_world_size();
  dlaunch::destroy_process_group();
  return right ? "ok" : "wrong";
}

// Returns "named" if the error names the victim.
std::string told_of_death(const char* operation, int victim, const std::function<void()>& call) {
  try {
    call();
  } catch (const dlaunch::DistNetworkError& e) {
    const std::string said = e.what();
    const std::string culprit = "peer " + std::to_string(victim) + " on " + host_name() + ": ";
    // Another rank that noticed first may have reported it.
    const bool named = contains(said, culprit) || contains(said, "rank " + std::to_string(victim) + ":");
    return named && contains(said, std::string(", ") + operation + " #1 of group ") ? "named" : said;
  }
  return "not noticed";
}

std::ptrdiff_t entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// Groups share the threads and connections of their process.
TEST(GlooGroups, CostNeitherThreadsNorDescriptors) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    constexpr int groups = 300;
    dlaunch::init_process_group();
    const std::ptrdiff_t threads = entries("/proc/self/task");
    const std::ptrdiff_t descriptors = entries("/proc/self/fd");
    std::vector<ProcessGroup> all;
    std::vector<int> sum(1);
    for (int i = 0; i < groups; ++i) {
      all.push_back(dlaunch::new_group({0, 1}));
      sum[0] = rank;
      all.back().all_reduce(Tensor::of(sum));
      if (sum[0] != 1) return "wrong";
    }
    const std::string said = std::to_string(entries("/proc/self/task") - threads) + " threads, " +
                             std::to_string(entries("/proc/self/fd") - descriptors) + " descriptors more";
    all.clear();
    dlaunch::destroy_process_group();
    return said;
  });
  expect_all_say(results, "0 threads, 0 descriptors more");
}

// No rank waits for half an hour: that would be a hang.
TEST(GlooGroups, ADeathWhileOneIsMadeIsNoticed) {
  const std::vector<std::vector<int>> all = {{0, 1, 2, 3}};
  const auto expect_named = [](const char* operation, const std::function<void()>& call) {
    const ProcessBarrier ready(4);
    const auto results = run_processes(4, [&](int rank) -> std::string {
      dlaunch::init_process_group();
      ready.meet();
      if (rank == 3) raise(SIGKILL);
      return told_of_death(operation, 3, call);
    });
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "named") << operation;
    }
  };
  expect_named("new_group", [] { dlaunch::new_group(); });
  expect_named("new_group", [&] { dlaunch::new_group(all[0], {.use_local_synchronization = true}); });
  expect_named("new_subgroups", [] { dlaunch::new_subgroups(4); });
  expect_named("new_subgroups_by_enumeration", [&] { dlaunch::new_subgroups_by_enumeration(all); });
  expect_named("split_group", [&] { dlaunch::split_group({}, all); });
  expect_named("init_device_mesh", [] { (void)dlaunch::init_device_mesh("cpu", {2, 2}); });
}

TEST(GlooGroups, ADeathBeforeABreakpointIsNoticed) {
  const ProcessBarrier ready(4);
  const ProcessBarrier all_know(3);
  const auto results = run_processes(4, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    ready.meet();
    if (rank == 3) raise(SIGKILL);
    const std::string told = told_of_death("breakpoint", 3, [] { dlaunch::breakpoint(3); });
    all_know.meet();
    return told;
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(results[static_cast<std::size_t>(rank)].said, "named");
}

// A dead rank that is no member harms no group.
TEST(GlooGroups, TheLivingMakeOneWithoutTheDead) {
  const ProcessBarrier ready(3);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    ready.meet();
    if (rank == 2) raise(SIGKILL);
    const ProcessGroup two = dlaunch::new_group({0, 1}, {.use_local_synchronization = true});
    std::vector<int> one = {1};
    two.all_reduce(Tensor::of(one));
    dlaunch::destroy_process_group();
    return one[0] == 2 ? "ok" : "wrong";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_EQ(results[1].said, "ok");
}

// The rank whose attempt has failed tries again, and meets the ranks that come now.
void retry_until_the_others_come(const std::function<dlaunch::InitOptions(int rank)>& options) {
  const ProcessBarrier failed_once(3);
  expect_all_say(run_processes(3,
                               [&](int rank) -> std::string {
                                 dlaunch::InitOptions mine = options(rank);
                                 if (rank == 1) {
                                   mine.timeout = std::chrono::seconds(1);
                                   for (int i = 0; i < 2; ++i) {
                                     std::string error = error_of([&] { dlaunch::init_process_group(mine); });
                                     if (!contains(error, "missing: ranks 0, 2 of 3")) return error;
                                   }
                                   mine.timeout = std::chrono::minutes(30);
                                 }
                                 failed_once.meet();
                                 dlaunch::init_process_group(mine);
                                 return add_up();
                               }),
                 "ok");
}

TEST(GlooGroups, AFailedInitCanBeTriedAgain) {
  retry_until_the_others_come([](int) { return dlaunch::InitOptions(); });
}

TEST(GlooGroups, AFailedInitByAFileCanBeTriedAgain) {
  const dlaunch::test::TemporaryFolder folder;
  retry_until_the_others_come([&](int rank) {
    dlaunch::InitOptions options;
    options.init_method = "file://" + folder.path() + "/meet";
    options.rank = rank;
    options.world_size = 3;
    return options;
  });
}

TEST(GlooGroups, DifferentWorldSizesFailOnAllRanks) {
  const auto results = run_processes(3, [](int rank) {
    if (rank == 1) setenv("WORLD_SIZE", "4", 1);
    return error_of([] { dlaunch::init_process_group(); });
  });
  for (const RankResult& result : results) {
    EXPECT_TRUE(contains(result.said, "init_process_group: the ranks call init_process_group differently: "))
        << result.said;
    EXPECT_TRUE(contains(result.said, "with a world of 3 ranks and the backend cpu:gloo")) << result.said;
    EXPECT_TRUE(contains(result.said, "rank 1 with a world of 4 ranks")) << result.said;
  }
}

TEST(GlooGroups, BackendUnusableOnOneRankFailsOnAllRanks) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::InitOptions options;
    if (rank == 0) options.backend = "odd";
    const std::string error = error_of([&] { dlaunch::init_process_group(options); });
    dlaunch::init_process_group();  // with all ranks
    dlaunch::destroy_process_group();
    return error;
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0, init_process_group: unknown backend 'odd'"))
      << results[0].said;
  for (const std::size_t rank : {1U, 2U}) {
    EXPECT_TRUE(contains(results[rank].said, ": rank 0 cannot take part: unknown backend 'odd'"))
        << results[rank].said;
  }
}

// The store must not end with rank 0 before the other ranks are informed.
TEST(GlooGroups, StoreServerStaysUntilAllRanksAreInformed) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(3, [&](int rank) -> std::string {
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
    dlaunch::InitOptions options;
    if (rank == 0) options.backend = "odd";
    return error_of([&] { dlaunch::init_process_group(options); });
  });
  for (const std::size_t rank : {1U, 2U}) {
    EXPECT_TRUE(contains(results[rank].said, ": rank 0 cannot take part: unknown backend 'odd'"))
        << results[rank].said;
  }
}

TEST(GlooGroups, ARankZeroThatDoesNotComeIsNamed) {
  const dlaunch::test::ReservedPort port;
  const auto results = run_processes(2, [&](int rank) -> std::string {
    if (rank == 0) return "away";
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
    dlaunch::InitOptions options;
    options.timeout = std::chrono::milliseconds(300);
    return error_of([&] { dlaunch::init_process_group(options); });
  });
  EXPECT_TRUE(contains(results[1].said, "rank 0, which serves the store, has not joined: "))
      << results[1].said;
}

TEST(GlooGroups, AFolderThatIsNotThereIsSaidSoon) {
  const dlaunch::test::TemporaryFolder folder;
  const auto results = run_processes(1, [&](int) {
    dlaunch::InitOptions options;
    options.init_method = "file://" + folder.path() + "/nonexistent/dir/meet";
    options.rank = 0;
    options.world_size = 1;
    return error_of([&] { dlaunch::init_process_group(options); });
  });
  EXPECT_TRUE(contains(results[0].said, "No such file or directory")) << results[0].said;
}

// Rank 0 serves the store, which all later calls need.
TEST(GlooGroups, DeathOfTheStoreServerIsReported) {
  const auto expect_named = [](const char* operation, const std::function<void()>& call) {
    const dlaunch::test::ReservedPort port;
    const ProcessBarrier ready(3);
    const auto results = run_processes(3, [&](int rank) -> std::string {
      unsetenv("TORCHELASTIC_USE_AGENT_STORE");
      setenv("MASTER_PORT", std::to_string(port.address().port).c_str(), 1);
      dlaunch::init_process_group();
      ready.meet();
      if (rank == 0) raise(SIGKILL);
      return told_of_death(operation, 0, call);
    });
    EXPECT_EQ(results[1].said, "named") << operation;
    EXPECT_EQ(results[2].said, "named") << operation;
  };
  expect_named("monitored_barrier", [] { dlaunch::monitored_barrier(); });
  expect_named("new_group", [] { dlaunch::new_group(); });
  expect_named("init_device_mesh", [] { (void)dlaunch::init_device_mesh("cpu", {3}); });
  expect_named("breakpoint", [] { dlaunch::breakpoint(0); });
  expect_named("all_reduce", [] {
    dlaunch::set_debug_level(dlaunch::DebugLevel::detail);
    std::vector<int> one = {1};
    dlaunch::all_reduce(Tensor::of(one));
  });
}

}  // namespace
