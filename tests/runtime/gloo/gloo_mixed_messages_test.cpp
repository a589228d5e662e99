// Messages of a group in which some ranks share memory and others do not, as on several hosts: a receive from
// any rank gets the messages of all.

#include <dlaunch/distributed.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/rank_processes.h"

namespace {

using dlaunch::any_source;
using dlaunch::PointToPointOptions;
using dlaunch::Tensor;
using dlaunch::test::contains;
using dlaunch::test::error_of;
using dlaunch::test::RankResult;
using dlaunch::test::run_processes;

constexpr int mixed_ranks = 4;

// `alone` shares no memory, the others do.
std::vector<RankResult> run_mixed(int alone, const std::function<std::string(int rank)>& body) {
  return run_processes(mixed_ranks, [&](int rank) {
    if (rank == alone) setenv("DLAUNCH_SHM", "0", 1);
    dlaunch::init_process_group();
    std::string said = body(rank);
    dlaunch::destroy_process_group();
    return said;
  });
}

PointToPointOptions with(std::uint32_t tag, std::optional<std::chrono::milliseconds> timeout = {}) {
  PointToPointOptions options;
  options.tag = tag;
  options.timeout = timeout;
  return options;
}

// What rank `from` sends as its message number `number`.
std::vector<std::int64_t> content_of(int from, int number, std::size_t count) {
  std::vector<std::int64_t> values(count, from);
  values.front() = number;
  return values;
}

class MixedMessages : public testing::TestWithParam<int> {};  // the rank alone
INSTANTIATE_TEST_SUITE_P(Alone, MixedMessages, testing::Values(0, 1, 3));

// Short and long ones, to a rank that shares memory and to one that does not.
TEST_P(MixedMessages, FromAnyRankAreTakenOnceEachAndInOrder) {
  const auto results = run_mixed(GetParam(), [](int rank) -> std::string {
    constexpr int rounds = 40;
    for (const int receiver : {1, 2}) {
      for (const std::size_t count : {2U, 50'000U}) {
        const auto options = with(static_cast<std::uint32_t>(count));
        if (rank != receiver) {
          for (int i = 0; i < rounds; ++i) {
            const auto values = content_of(rank, i, count);
            dlaunch::send(Tensor::of(values), receiver, options);
          }
          continue;
        }
        std::array<int, mixed_ranks> next{};
        std::vector<std::int64_t> values(count);
        for (int i = 0; i < rounds * (mixed_ranks - 1); ++i) {
          const int from = dlaunch::recv(Tensor::of(values), any_source, options);
          if (values != content_of(from, next[static_cast<std::size_t>(from)]++, count))
            return "wrong message";
        }
      }
      dlaunch::barrier();
    }
    return "ok";
  });
  expect_all_say(results, "ok");
}

// All ranks send to all, themselves included: with tag 0 for receives from any rank, with tag 1 for others.
TEST_P(MixedMessages, OfAllKindsAtOnce) {
  const auto results = run_mixed(GetParam(), [](int rank) -> std::string {
    constexpr int messages = 150;  // from each to each, with each tag
    const auto count_of = [](std::uint32_t tag, int number) -> std::size_t {
      return tag == 1 && number % 37 == 0 ? 20'000 : 3;
    };
    std::vector<std::vector<std::int64_t>> out;
    std::vector<dlaunch::Work> sends;
    for (int i = 0; i < messages; ++i) {
      for (const std::uint32_t tag : {0U, 1U}) {
        out.push_back(content_of(rank, i, count_of(tag, i)));
        for (int to = 0; to < mixed_ranks; ++to)
          sends.push_back(dlaunch::isend(Tensor::of(out.back()), to, with(tag)));
      }
    }
    std::mt19937 random(static_cast<unsigned>(rank));
    std::array<int, mixed_ranks> by_any{};
    std::array<int, mixed_ranks> by_name{};
    int open = messages * mixed_ranks;
    int named = messages * mixed_ranks;
    while (open + named > 0) {
      if (named == 0 || (open > 0 && random() % 2 == 0)) {
        --open;
        std::vector<std::int64_t> values(3);
        const dlaunch::Work work = dlaunch::irecv(Tensor::of(values), any_source, with(0));
        work.wait();
        const int from = work.source_rank();
        if (values != content_of(from, by_any[static_cast<std::size_t>(from)]++, 3))
          return "wrong open message";
      } else {
        --named;
        int from = static_cast<int>(random() % mixed_ranks);
        while (by_name[static_cast<std::size_t>(from)] == messages) from = (from + 1) % mixed_ranks;
        const int number = by_name[static_cast<std::size_t>(from)]++;
        std::vector<std::int64_t> values(count_of(1, number));
        dlaunch::recv(Tensor::of(values), from, with(1));
        if (values != content_of(from, number, values.size())) return "wrong named message";
      }
    }
    for (const dlaunch::Work& work : sends) work.wait();
    dlaunch::barrier();
    return "ok";
  });
  expect_all_say(results, "ok");
}

TEST_P(MixedMessages, AReceiveFromAnyRankEndsWhenAllHaveLeft) {
  const int alone = GetParam();
  for (const bool receives_before : {true, false}) {
    const int receiver = 2;
    const auto results = run_mixed(alone, [&](int rank) -> std::string {
      if (rank != receiver) {
        std::vector<int> value{rank};
        if (rank == alone || rank == 3) dlaunch::send(Tensor::of(value), receiver);
        if (!receives_before) dlaunch::barrier();
        return "left";
      }
      std::vector<int> value(1);
      // After it, all others leave; it ends when they have entered.
      if (!receives_before) dlaunch::barrier();
      const int sent = alone == 3 ? 1 : 2;
      for (int i = 0; i < sent; ++i) dlaunch::recv(Tensor::of(value), any_source);
      return error_of([&] { dlaunch::recv(Tensor::of(value), any_source); });
    });
    EXPECT_TRUE(contains(results[receiver].said, "all other ranks have left the group"))
        << results[receiver].said;
  }
}

TEST_P(MixedMessages, AReceiveFromAnyRankEndsAtItsDeadline) {
  const auto results = run_mixed(GetParam(), [](int rank) -> std::string {
    std::vector<int> value(1);
    if (rank != 2) return error_of([&] { dlaunch::recv(Tensor::of(value), 2); });  // stays until then
    return error_of(
        [&] { dlaunch::recv(Tensor::of(value), any_source, with(0, std::chrono::milliseconds(50))); });
  });
  EXPECT_TRUE(contains(results[2].said, "no message with tag 0 from any rank before the deadline"))
      << results[2].said;
}

// Of a rank on the same host, and of one elsewhere.
TEST_P(MixedMessages, AReceiveFromAnyRankEndsWhenARankDies) {
  for (const int victim : {0, 3}) {
    const auto results = run_mixed(GetParam(), [&](int rank) -> std::string {
      dlaunch::barrier();
      if (rank == victim) kill(getpid(), SIGKILL);
      std::vector<int> value(1);
      return error_of([&] { dlaunch::recv(Tensor::of(value), any_source); });
    });
    for (int rank = 0; rank < mixed_ranks; ++rank) {
      if (rank != victim) {
        EXPECT_TRUE(contains(results[static_cast<std::size_t>(rank)].said, "peer " + std::to_string(victim)))
            << results[static_cast<std::size_t>(rank)].said;
      }
    }
  }
}

}  // namespace
