// No rank leaves before all have come.

#include "runtime/collectives/barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <vector>

#include "tests/runtime/collectives/sides.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_ranks;
using test::Side;

class Barrier : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Barrier, testing::Range(1, 10));

TEST_P(Barrier, WaitsForAll) {
  std::atomic<int> arrived = 0;
  expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
    Side side(std::move(transport));
    ++arrived;
    barrier(side.exchange);
    EXPECT_EQ(arrived, GetParam());
  }));
}

// No rank is a call ahead of another that has not come to it.
TEST_P(Barrier, SeparatesManyCalls) {
  constexpr int rounds = 50;
  std::vector<std::atomic<int>> entered(rounds + 1);
  expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
    Workspace workspace;
    for (int round = 1; round <= rounds; ++round) {
      Exchange exchange(*transport, workspace, {}, static_cast<std::uint64_t>(round), test::soon());
      ++entered[static_cast<std::size_t>(round)];
      barrier(exchange);
      EXPECT_EQ(entered[static_cast<std::size_t>(round)], GetParam());
    }
  }));
}
}  // namespace
}  // namespace dlaunch::internal
