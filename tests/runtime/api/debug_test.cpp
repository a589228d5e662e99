// Errors of ranks that call different operations, and the levels of checks and log.

#include "dlaunch/debug.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <latch>
#include <map>
#include <string>
#include <vector>

#include "dlaunch/device_mesh.h"
#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "runtime/base/log.h"
#include "tests/runtime/group/thread_groups.h"
#include "tests/runtime/group/thread_worlds.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::error_of;
using test::host_name;
using test::in_world;

class MonitoredBarrier : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MonitoredBarrier, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(MonitoredBarrier, WaitsForAll) {
  std::atomic<int> arrived = 0;
  const int size = GetParam();
  in_world(size, [&](int) {
    for (int round = 1; round <= 5; ++round) {
      ++arrived;
      monitored_barrier();
      EXPECT_GE(arrived, round * size);
      barrier();
    }
  });
}

TEST(MonitoredBarrierErrors, NameTheFirstOrAllMissingRanksAndKeepTheGroup) {
  in_world(4, [](int rank) {
    for (const bool all : {false, true}) {
      barrier();
      if (rank == 0 || rank == 2) {
        // Rank 2 waits longer: it must receive rank 0's decision. It has so long to come.
        const auto timeout = std::chrono::milliseconds(rank == 0 ? 1000 : 60'000);
        const std::string wanted = all ? "#4 of group default, peer 1 on " + host_name() +
                                             ": Ranks 1, 3 failed to pass monitoredBarrier in 1000 ms"
                                       : "#1 of group default, peer 1 on " + host_name() +
                                             ": Rank 1 failed to pass monitoredBarrier in 1000 ms";
        EXPECT_EQ(error_of([&] { monitored_barrier(timeout, all); }),
                  "rank " + std::to_string(rank) + ", monitored_barrier " + wanted);
      }
      // The data connections know nothing of it.
      std::vector<int> one = {1};
      all_reduce(Tensor::of(one));
      EXPECT_EQ(one[0], 4);
      // All are together again, at once: calls do not count.
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(error_of([] { monitored_barrier(std::chrono::seconds(60)); }), "no error");
      }
    }
  });
}

TEST(MonitoredBarrier, NamesTheFirstRankWhenThatIsMissing) {
  in_world(2, [](int rank) {
    if (rank == 1) {
      EXPECT_TRUE(error_contains([] { monitored_barrier(std::chrono::milliseconds(30)); },
                                 "Rank 0 failed to pass monitoredBarrier in 30 ms"));
    }
    barrier();
  });
}

TEST(MonitoredBarrierErrors, NameTheMissingRankOnEveryRank) {
  // Whether the first rank's deadline is the same, or later.
  for (const int first : {1000, 2000}) {
    std::latch ready(4);
    std::latch told(3);
    in_world(4, [&](int rank) {
      ready.arrive_and_wait();
      if (rank != 3) {
        const std::string timeout = std::to_string(rank == 0 ? first : 1000);
        const std::string error =
            error_of([&] { monitored_barrier(std::chrono::milliseconds(std::stoi(timeout)), true); });
        EXPECT_TRUE(test::contains(error, "Rank 3 failed to pass monitoredBarrier in ")) << error;
        told.count_down();
      }
      told.wait();
      EXPECT_EQ(error_of([] { monitored_barrier(std::chrono::seconds(60)); }), "no error");
    });
  }
}

// Whoever it was, the first rank too.
TEST(MonitoredBarrier, MissingOneDoesNotCount) {
  for (const int absentee : {0, 1}) {
    std::latch missed(3);
    in_world(3, [&](int rank) {
      if (rank != absentee) {
        const std::string error = error_of([] { monitored_barrier(std::chrono::seconds(1)); });
        EXPECT_TRUE(test::contains(error, "Rank " + std::to_string(absentee) + " failed to pass")) << error;
      }
      missed.arrive_and_wait();
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(error_of([] { monitored_barrier(std::chrono::seconds(60)); }), "no error");
      }
    });
  }
}

class AtDetail : public testing::Test {
 protected:
  void SetUp() override { set_debug_level(DebugLevel::detail); }
  void TearDown() override { set_debug_level(DebugLevel::off); }
};

// What is right there differs from rank to rank.
TEST_F(AtDetail, SizesOfAnAllToAllThatDoNotFitAreNamedOnEveryRankBeforeAnythingHappens) {
  in_world(3, [](int rank) {
    const std::string wanted =
        "the sizes do not match: rank 0 sends 2 elements to rank 1, which expects 4; rank 2 sends 2 elements "
        "to "
        "rank 1, which expects 0";
    std::vector<int> given(6, rank);
    std::vector<int> got(6, -1);
    const std::vector<std::int64_t> even = {2, 2, 2};
    const std::vector<std::int64_t> odd = {4, 2, 0};
    EXPECT_TRUE(error_contains(
        [&] { all_to_all_single(Tensor::of(got), Tensor::of(given), rank == 1 ? odd : even, even); },
        wanted));
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    for (std::int64_t peer = 0, begin = 0; peer < 3; ++peer) {
      inputs.push_back(Tensor::from(given.data() + 2 * peer, {2}));
      const std::int64_t count = rank == 1 ? odd[static_cast<std::size_t>(peer)] : 2;
      outputs.push_back(Tensor::from(got.data() + begin, {count}));
      begin += count;
    }
    EXPECT_TRUE(error_contains([&] { all_to_all(outputs, inputs); }, wanted));
    EXPECT_EQ(got, std::vector<int>(6, -1));
    all_to_all_single(Tensor::of(got), Tensor::of(given));  // the group is as it was
    EXPECT_EQ(got, (std::vector<int>{0, 0, 1, 1, 2, 2}));
  });
}

// Each is a pair of calls: what most ranks do and what rank 1 does.
TEST_F(AtDetail, EveryDifferenceIsNamedOnEveryRankBeforeAnythingHappens) {
  in_world(3, [](int rank) {
    std::vector<float> ten(10, 1.0F);
    std::vector<float> twenty(20, 1.0F);
    std::vector<int> ints(10, 1);
    const auto differing = [&](const std::string& most, const std::string& one, const auto& call,
                               const auto& other) {
      const std::string error = error_of([&] {
        if (rank == 1) {
          other();
        } else {
          call();
        }
      });
      EXPECT_TRUE(error.ends_with("the ranks call different operations: ranks 0, 2 call " + most +
                                  "; rank 1 calls " + one))
          << error;
    };
    const Tensor t10 = Tensor::of(ten);
    const auto sum10 = [&] { all_reduce(t10); };
    differing("all_reduce(float32[10] on cpu, sum)", "all_reduce(float32[20] on cpu, sum)", sum10,
              [&] { all_reduce(Tensor::of(twenty)); });
    differing("all_reduce(float32[10] on cpu, sum)", "all_reduce(int32[10] on cpu, sum)", sum10,
              [&] { all_reduce(Tensor::of(ints)); });
    differing("all_reduce(float32[10] on cpu, sum)", "all_reduce(float32[10] on cpu, max)", sum10,
              [&] { all_reduce(t10, ReduceOp::max); });
    differing("all_reduce(float32[10] on cpu, sum)", "all_reduce(float32[2, 5] on cpu, sum)", sum10, [&] {
      all_reduce(Tensor::from(ten.data(), {2, 5}));
    });
    differing("all_reduce(float32[10] on cpu, sum)", "barrier()", sum10, [] { barrier(); });
    differing(
        "broadcast(float32[10] on cpu, src 0)", "broadcast(float32[10] on cpu, src 1)",
        [&] { broadcast(t10, 0); }, [&] { broadcast(t10, 1); });
    differing(
        "reduce(float32[10] on cpu, sum, dst 2)", "reduce(float32[10] on cpu, sum, dst 0)",
        [&] { reduce(t10, 2); }, [&] { reduce(t10, 0); });
    differing("all_reduce(float32[10] on cpu, sum)", "monitored_barrier()", sum10,
              [] { monitored_barrier(); });
    sum10();  // the ranks still count alike
    differing(
        "monitored_barrier()", "barrier()", [] { monitored_barrier(); }, [] { barrier(); });
    // Nothing was sent and nothing is broken.
    all_reduce(t10);
    EXPECT_EQ(ten, std::vector<float>(10, 9.0F));
  });
}

// They are calls like the others, although nothing of theirs goes over the data connections.
TEST_F(AtDetail, WhatMakesGroupsAndBreakpointsAreComparedToo) {
  in_world(3, [](int rank) {
    std::vector<int> one = {1};
    const std::map<std::string, std::function<void()>> calls = {
        {"all_reduce(int32[1] on cpu, sum)", [&] { all_reduce(Tensor::of(one)); }},
        {"breakpoint(0)", [] { breakpoint(0); }},
        {"breakpoint(1)", [] { breakpoint(1); }},
        {"init_device_mesh()", [] { (void)init_device_mesh("cpu", {3}); }},
        {"monitored_barrier()", [] { monitored_barrier(); }},
        {"new_group()", [] { (void)new_group(); }},
        {"new_subgroups()", [] { (void)new_subgroups(3); }},
    };
    for (const auto& [most, most_call] : calls) {
      for (const auto& [odd, odd_call] : calls) {
        if (most == odd) continue;
        const std::string error = error_of(rank == 1 ? odd_call : most_call);
        EXPECT_TRUE(error.ends_with("the ranks call different operations: ranks 0, 2 call " + most +
                                    "; rank 1 calls " + odd))
            << error;
      }
    }
    // The ranks still count alike, and nothing has happened.
    EXPECT_EQ(get_pg_count(), 1);
    EXPECT_EQ(new_group().name(), "1");
    EXPECT_EQ(init_device_mesh("cpu", {3}).size(), 3);
    EXPECT_TRUE(new_subgroups(3));
    all_reduce(Tensor::of(one));
    EXPECT_EQ(one[0], 3);
  });
}

TEST(Breakpoint, DifferentRanksAreRejectedAtOnce) {
  in_world(3, [](int rank) {
    const std::string error = error_of([&] { breakpoint(rank == 1 ? 1 : 0); });
    const std::string start =
        "rank " + std::to_string(rank) +
        ", breakpoint #1 of group default: the ranks call breakpoint differently: rank ";
    EXPECT_TRUE(error.starts_with(start)) << error;
    EXPECT_TRUE(test::contains(error, "rank 1 with breakpoint(1)")) << error;
    EXPECT_TRUE(test::contains(error, " with breakpoint(0)")) << error;
    std::vector<int> one = {1};
    all_reduce(Tensor::of(one));
    EXPECT_EQ(one[0], 3);
  });
}

// On every rank, also where all deadlines are the same or the first rank's is the latest.
TEST_F(AtDetail, ARankThatDoesNotCallIsNamed) {
  for (const auto& seconds : {std::vector{1, 60}, std::vector{1, 1}, std::vector{2, 1}}) {
    std::latch told(2);
    in_world(3, [&](int rank) {
      std::vector<float> values(4);
      if (rank != 2) {
        CollectiveOptions options;
        options.timeout = std::chrono::seconds(seconds[static_cast<std::size_t>(rank)]);
        EXPECT_EQ(error_of([&] { all_reduce(Tensor::of(values), ReduceOp::sum, options); }),
                  "rank " + std::to_string(rank) + ", all_reduce #1 of group default, peer 2 on " +
                      host_name() +
                      ": rank 2 did not call anything before the deadline; this group's other ranks call "
                      "all_reduce(float32[4] on cpu, sum)");
        told.count_down();
      }
      told.wait();
    });
  }
}

// Half an hour before the deadline.
TEST_F(AtDetail, ARankThatHasLeftIsNamedAtOnce) {
  for (const int leaver : {0, 2}) {
    in_world(3, [&](int rank) {
      std::vector<float> values(4);
      if (rank == leaver) return;
      const std::string start = "rank " + std::to_string(rank) + ", ";
      const std::string end = " #1 of group default, peer " + std::to_string(leaver) + " on " + host_name() +
                              ": rank " + std::to_string(leaver) + " has left the group";
      EXPECT_EQ(error_of([&] { all_reduce(Tensor::of(values)); }), start + "all_reduce" + end);
      EXPECT_EQ(error_of([] { monitored_barrier(); }), start + "monitored_barrier" + end);
    });
  }
}

// Other than at the lower levels the call counts, as all calls do here.
TEST_F(AtDetail, LateRankGetsTheErrorOfTheEndedMonitoredBarrier) {
  std::latch told(2);
  in_world(3, [&](int rank) {
    if (rank == 1) told.wait();
    const std::string error = error_of([&] {
      monitored_barrier(rank == 0 ? std::chrono::milliseconds(100) : std::chrono::milliseconds(60'000));
    });
    if (rank != 1) told.count_down();
    EXPECT_TRUE(error.ends_with("Rank 1 failed to pass monitoredBarrier in 100 ms")) << error;
    EXPECT_EQ(error_of([] { monitored_barrier(); }), "no error");
    EXPECT_EQ(error_of([] { barrier(); }), "no error");
  });
}

TEST_F(AtDetail, EveryCollectiveStillWorks) {
  in_world(3, [](int rank) {
    std::vector<int> own = {rank};
    std::vector<int> all(3);
    std::vector<Tensor> parts;
    for (int& value : all) parts.push_back(Tensor::from(&value, {1}));
    all_gather(parts, Tensor::of(own));
    EXPECT_EQ(all, (std::vector<int>{0, 1, 2}));
    gather(rank == 1 ? parts : std::vector<Tensor>(), Tensor::of(own), 1);
    scatter(Tensor::of(own), rank == 1 ? parts : std::vector<Tensor>(), 1);
    EXPECT_EQ(own[0], rank);
    // Ranks may ask for different things where the operation allows it.
    const std::vector<std::int64_t> splits = {rank, rank, rank};
    const std::vector<std::int64_t> from = {0, 1, 2};
    std::vector<int> rows(static_cast<std::size_t>(3 * rank), rank);
    std::vector<int> got(3);
    all_to_all_single(Tensor::of(got), Tensor::of(rows), from, splits);
    EXPECT_EQ(got, (std::vector<int>{1, 2, 2}));
  });
}

// A process with this environment.
template <class Body>
void with_variables(const std::vector<std::pair<const char*, const char*>>& variables, const Body& body) {
  EXPECT_EXIT(
      {
        for (const char* const name : {"DLAUNCH_DISTRIBUTED_DEBUG", "TORCH_DISTRIBUTED_DEBUG",
                                       "DLAUNCH_CPP_LOG_LEVEL", "TORCH_CPP_LOG_LEVEL"}) {
          unsetenv(name);
        }
        for (const auto& [name, value] : variables) setenv(name, value, 1);
        std::_Exit(body() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Levels, FollowTheEnvironmentAsTheOriginalsDo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto level = [](DebugLevel wanted) {
    return [wanted] {
      set_debug_level_from_env();
      return get_debug_level() == wanted;
    };
  };
  with_variables({}, level(DebugLevel::off));
  with_variables({{"TORCH_DISTRIBUTED_DEBUG", "info"}}, level(DebugLevel::info));
  with_variables({{"TORCH_DISTRIBUTED_DEBUG", "INFO"}, {"DLAUNCH_DISTRIBUTED_DEBUG", "Detail"}},
                 level(DebugLevel::detail));
  with_variables({{"DLAUNCH_DISTRIBUTED_DEBUG", "loud"}}, [] {
    return error_of([] { set_debug_level_from_env(); }) ==
           "the environment variable DLAUNCH_DISTRIBUTED_DEBUG: 'LOUD' is not OFF, INFO or DETAIL";
  });
}

LogLevel next_after(LogLevel level) { return static_cast<LogLevel>(static_cast<int>(level) + 1); }

TEST(Levels, OfTheLogDependOnBothVariables) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  struct Row {
    const char* log;
    const char* debug;
    LogLevel shown;
  };
  for (const Row& row : {Row{"ERROR", "DETAIL", LogLevel::error}, Row{"WARNING", "DETAIL", LogLevel::warning},
                         Row{"INFO", "OFF", LogLevel::info}, Row{"INFO", "INFO", LogLevel::debug},
                         Row{"INFO", "DETAIL", LogLevel::trace}}) {
    with_variables({{"TORCH_CPP_LOG_LEVEL", row.log}, {"TORCH_DISTRIBUTED_DEBUG", row.debug}}, [&] {
      set_debug_level_from_env();
      const bool shows = logs(row.shown) && (row.shown == LogLevel::trace || !logs(next_after(row.shown)));
      return shows && get_log_level() == row.shown;
    });
  }
  with_variables({}, [] { return get_log_level() == LogLevel::warning; });
}

}  // namespace
}  // namespace dlaunch::internal
