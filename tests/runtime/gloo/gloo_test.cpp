// The gloo backend as programs use it: several processes, a store server, the public API.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/rank_processes.h"
#include "tests/runtime/shared_memory.h"

namespace {

using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::expect_all_say;
using dlaunch::test::host_name;
using dlaunch::test::ProcessBarrier;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;
using dlaunch::test::Variable;

std::string try_all_collectives(int rank, int size) {
  dlaunch::init_process_group();
  if (dlaunch::get_rank() != rank || dlaunch::get_world_size() != size) return "identity";
  if (dlaunch::get_backend() != "gloo") return "backend";
  const auto ranks = static_cast<std::size_t>(size);
  for (const std::size_t count : {0U, 1U, 1000U, 8192U, 8193U, 1000000U}) {
    std::vector<float> sum(count, static_cast<float>(rank + 1));
    dlaunch::all_reduce(Tensor::of(sum));
    const int total = size * (size + 1) / 2;
    if (sum != std::vector<float>(count, static_cast<float>(total))) return "all_reduce";

    std::vector<std::int64_t> from_last(count, rank);
    dlaunch::broadcast(Tensor::of(from_last), size - 1);
    if (from_last != std::vector<std::int64_t>(count, size - 1)) return "broadcast";

    const std::vector<std::uint8_t> own(count, static_cast<std::uint8_t>(rank));
    std::vector<std::uint8_t> all(count * ranks);
    dlaunch::all_gather_into_tensor(Tensor::of(all), Tensor::of(own));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != i / count) return "all_gather_into_tensor";
    }
    dlaunch::barrier();
  }
  dlaunch::destroy_process_group();
  return dlaunch::is_initialized() ? "still there" : "ok";
}

class WithRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Gloo, WithRanks, testing::Values(1, 2, 3, 4));

TEST_P(WithRanks, AllCollectivesWork) {
  const int size = GetParam();
  expect_all_say(run_processes(size, [size](int rank) { return try_all_collectives(rank, size); }), "ok");
}

// Lengths for one message, for two parts, for messages from memory to memory, and for other algorithms.
TEST_P(WithRanks, ManyAsynchronousOperationsKeepTheirOrder) {
  const int size = GetParam();
  const auto results = run_processes(size, [size](int rank) -> std::string {
    constexpr std::size_t operations = 60;
    constexpr std::array<std::size_t, 7> lengths = {3, 4096, 4097, 8192, 8193, 32768, 40000};
    dlaunch::init_process_group();
    std::vector<std::vector<double>> values(operations);
    std::vector<dlaunch::Work> works(operations);
    dlaunch::CollectiveOptions options;
    options.async_op = true;
    for (std::size_t i = 0; i < operations; ++i) {
      values[i].assign(lengths[i % lengths.size()], static_cast<double>(i) + rank);
      works[i] = dlaunch::all_reduce(Tensor::of(values[i]), dlaunch::ReduceOp::max, options);
    }
    for (const auto& work : works) work.wait();
    for (std::size_t i = 0; i < operations; ++i) {
      if (values[i].back() != static_cast<double>(i) + size - 1) return "wrong";
    }
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(Gloo, AGroupCanBeMadeAgain) {
  const auto results = run_processes(2, [](int) -> std::string {
    for (int i = 0; i < 3; ++i) {
      dlaunch::init_process_group();
      std::vector<int> one = {1};
      dlaunch::all_reduce(Tensor::of(one));
      if (one[0] != 2) return "wrong";
      dlaunch::destroy_process_group();
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

// A rank that has its result may leave while others still work on the same operation.
TEST(Gloo, LeavingEarlyDoesNotFailOtherRanks) {
  const auto results = run_processes(4, [](int rank) -> std::string {
    for (int i = 0; i < 10; ++i) {
      dlaunch::init_process_group();
      std::vector<float> values(500000, rank == 0 ? 1.0F : 0.0F);
      dlaunch::broadcast(Tensor::of(values), 0);
      dlaunch::destroy_process_group();
      if (values.back() != 1.0F) return "wrong";
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

// The last rank dies while the others are in the operation numbered after
// `dying_after`, or still in the one before.
void expect_deaths_noticed(int size, std::size_t count, int dying_after) {
  const auto results = run_processes(size, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<float> values(count);
    for (int i = 1; i < 1000; ++i) {
      if (rank == size - 1 && i > dying_after) {
        dlaunch::CollectiveOptions async;
        async.async_op = true;
        dlaunch::all_reduce(Tensor::of(values), dlaunch::ReduceOp::sum, async);
        raise(SIGKILL);
      }
      try {
        dlaunch::all_reduce(Tensor::of(values));
      } catch (const dlaunch::DistNetworkError& e) {
        if (i < dying_after) return std::string("too early: ") + e.what();
        if (e.context().rank != rank || e.context().operation != "all_reduce") return "wrong place";
        if (e.context().sequence != static_cast<std::uint64_t>(i)) return "wrong number";
        const std::string said = e.what();
        if (e.context().peer != size - 1) return "wrong peer: " + said;
        dlaunch::destroy_process_group();  // reports the reason to the others
        return said;
      }
    }
    return "not noticed";
  });
  for (int rank = 0; rank + 1 < size; ++rank) {
    const RankResult& result = results[static_cast<std::size_t>(rank)];
    EXPECT_EQ(result.status, 0) << result.said;
    EXPECT_TRUE(contains(result.said, "all_reduce #")) << result.said;
    EXPECT_TRUE(contains(result.said, ": it died")) << result.said;
  }
  EXPECT_TRUE(WIFSIGNALED(results.back().status));
}

TEST(GlooDeath, InShortOperations) {
  for (int i = 1; i <= 10; ++i) expect_deaths_noticed(4, 10, i);
}

TEST(GlooDeath, InTheMiddleOfLongOperations) {
  for (int i = 1; i <= 10; ++i) expect_deaths_noticed(4, 4000000, 1 + i % 3);
}

// Each pair of ranks is connected twice.
TEST(GlooOnTwoInterfaces, AllCollectivesWork) {
  const Variable both("DLAUNCH_SOCKET_IFNAME", "lo,lo");
  expect_all_say(run_processes(3, [](int rank) { return try_all_collectives(rank, 3); }), "ok");
}

TEST(GlooOnTwoInterfaces, DeathsAreNoticed) {
  const Variable both("DLAUNCH_SOCKET_IFNAME", "lo,lo");
  for (int i = 1; i <= 5; ++i) {
    expect_deaths_noticed(4, 10, i);
    expect_deaths_noticed(4, 4000000, 1 + i % 3);
  }
}

TEST(GlooDeath, OfARankThatIsNotInTheOperation) {
  const auto results = run_processes(3, [](int rank) -> std::string {
    dlaunch::init_process_group();
    try {
      dlaunch::barrier();  // rank 2 takes part in it, perhaps to its end
      if (rank == 2) raise(SIGKILL);
      dlaunch::barrier();
    } catch (const dlaunch::DistNetworkError& e) {
      try {
        dlaunch::barrier();
      } catch (const dlaunch::DistNetworkError& again) {
        if (!contains(again.what(), "the group is broken")) return again.what();
      }
      dlaunch::destroy_process_group();
      return e.context().peer == 2 && contains(e.what(), ": it died") ? "ok" : e.what();
    }
    return "not noticed";
  });
  EXPECT_EQ(results[0].said, "ok");
  EXPECT_EQ(results[1].said, "ok");
}

TEST(Gloo, ARankThatLeavesIsNamed) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    dlaunch::init_process_group();
    if (rank == 1) {
      dlaunch::destroy_process_group();
      return "left";
    }
    try {
      dlaunch::barrier();
    } catch (const dlaunch::DistNetworkError& e) {
      return e.what();
    }
    return "not noticed";
  });
  EXPECT_TRUE(contains(results[0].said, "rank 0, barrier #1 of group default, peer 1 on "))
      << results[0].said;
  EXPECT_TRUE(contains(results[0].said, "it has left the group")) << results[0].said;
}

// The errors of the ranks when their calls do not match.
std::vector<RankResult> told_of_calls(int size, const std::function<void(int rank)>& call) {
  return run_processes(size, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::string said = "not noticed";
    try {
      call(rank);
    } catch (const dlaunch::DistNetworkError& e) {
      said = e.what();
    }
    // Waits until the others have the reason: a process that ends at once may lose it.
    dlaunch::destroy_process_group();
    return said;
  });
}

TEST(Gloo, DifferentCallsAreAnErrorOnEveryRank) {
  const auto results = told_of_calls(3, [](int rank) {
    std::vector<float> values(rank == 1 ? 4000 : 1000);
    std::vector<float> long_values(rank == 1 ? 400000 : 100000);
    dlaunch::all_reduce(Tensor::of(rank == 0 ? values : long_values));
  });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(contains(result.said, "the ranks call different operations")) << result.said;
  }
}

// No message under way could show the difference.
TEST(Gloo, DifferentCallsThatBlockEachOtherFailOnEveryRank) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{100000}}) {
    const auto results = told_of_calls(3, [count](int rank) {
      std::vector<float> values(count);
      std::vector<float> all(3 * count);
      const std::vector<Tensor> parts = {Tensor::of(std::span(all).first(count)),
                                         Tensor::of(std::span(all).subspan(count, count)),
                                         Tensor::of(std::span(all).last(count))};
      if (rank == 0) {
        dlaunch::gather(parts, Tensor::of(values), 0);
      } else {
        dlaunch::broadcast(Tensor::of(values), 0);
      }
    });
    for (const RankResult& result : results) {
      EXPECT_EQ(result.status, 0);
      EXPECT_TRUE(contains(result.said, "the ranks call different operations")) << result.said;
    }
  }
}

TEST(Gloo, DifferentCallsOfOneLengthAreAnErrorOnEveryRank) {
  const auto results = told_of_calls(2, [](int rank) {
    std::vector<float> values(100000);
    if (rank == 0) {
      dlaunch::broadcast(Tensor::of(values), 0);
      dlaunch::barrier();
    } else {
      dlaunch::reduce(Tensor::of(values), 1);
    }
  });
  for (const RankResult& result : results) {
    EXPECT_EQ(result.status, 0);
    EXPECT_TRUE(contains(result.said, "different operations") ||
                contains(result.said, "not at the same call"))
        << result.said;
  }
}

TEST(Gloo, AStoppedRankIsAnErrorAtTheDeadline) {
  const ProcessBarrier rank_1_waits(2);
  const auto results = run_processes(3, [&](int rank) -> std::string {
    dlaunch::init_process_group();
    std::vector<int> pids(3);
    const std::vector<int> own = {getpid()};
    dlaunch::all_gather_into_tensor(Tensor::of(pids), Tensor::of(own));
    // Rank 2 stops when the others have its messages: until then these may still wait in its process.
    const std::vector<int> done = {1};
    std::vector<int> heard = {0};
    if (rank != 2) dlaunch::send(Tensor::of(done), 2);
    for (int other = 0; rank == 2 && other < 2; ++other) dlaunch::recv(Tensor::of(heard), other);
    if (rank == 2) raise(SIGSTOP);
    std::string said = "not noticed";
    dlaunch::CollectiveOptions options;
    options.timeout = std::chrono::milliseconds(rank == 0 ? 1000 : 60000);
    options.async_op = rank == 1;
    std::vector<float> values(1000000);
    if (rank == 0) rank_1_waits.meet();
    try {
      const dlaunch::Work work = dlaunch::all_reduce(Tensor::of(values), dlaunch::ReduceOp::sum, options);
      if (rank == 1) rank_1_waits.meet();
      work.wait();
    } catch (const dlaunch::DistNetworkError& e) {
      said = e.what();
    }
    if (rank == 1) kill(pids[2], SIGKILL);
    dlaunch::destroy_process_group();
    return said;
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(results[static_cast<std::size_t>(rank)].said,
              "rank " + std::to_string(rank) + ", all_reduce #2 of group default, peer 2 on " + host_name() +
                  ": no answer from rank 2 of 3 after the deadline");
  }
}

// Gloo used the timeout of connecting for every wait.
TEST(Gloo, ARankMayStandStillForLongerThanTheGroupWasWaitedFor) {
  const auto results = run_processes(2, [](int rank) -> std::string {
    dlaunch::InitOptions options;
    options.timeout = std::chrono::seconds(4);
    dlaunch::init_process_group(options);
    dlaunch::default_group().set_timeout(std::chrono::seconds(60));
    std::vector<int> pids(2);
    const std::vector<int> own = {getpid()};
    dlaunch::all_gather_into_tensor(Tensor::of(pids), Tensor::of(own));
    if (rank == 0) {
      // Rank 1 has the message when it reports so; then it waits in the barrier, or soon does.
      std::vector<int> heard(1);
      dlaunch::recv(Tensor::of(heard), 1);
      kill(pids[1], SIGSTOP);
      std::this_thread::sleep_for(std::chrono::seconds(5));
      kill(pids[1], SIGCONT);
    } else {
      dlaunch::send(Tensor::of(own), 0);
    }
    dlaunch::barrier();
    dlaunch::destroy_process_group();
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST(GlooInit, ARankThatNeverComesIsNamed) {
  const auto results = run_processes(
      4,
      [](int) -> std::string {
        dlaunch::InitOptions options;
        options.timeout = std::chrono::seconds(2);
        try {
          dlaunch::init_process_group(options);
        } catch (const dlaunch::DistNetworkError& e) {
          return dlaunch::is_initialized() ? "initialized" : e.what();
        }
        return "not noticed";
      },
      2);
  for (const RankResult& result : results) {
    // On a busy machine the other rank may be late, too.
    EXPECT_TRUE(contains(result.said, "missing: ranks ")) << result.said;
    EXPECT_TRUE(contains(result.said, "2, 3 of 4")) << result.said;
  }
}

}  // namespace
