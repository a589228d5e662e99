// Every rank sends a block of its own size to every rank.

#include "runtime/collectives/all_to_all.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/errors.h"
#include "tests/runtime/collectives/sides.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::values_of;

class AllToAll : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllToAll, testing::Values(1, 2, 3, 4, 5, 8, 9, 12));

// What `from` sends to `to`: no two blocks have the same values, and some are empty.
std::vector<float> block(int from, int to, std::size_t base) {
  return values_of(from * 31 + to, base * static_cast<std::size_t>((from + 2 * to) % 4));
}

TEST_P(AllToAll, MovesBlocksOfAllSizes) {
  const int size = GetParam();
  for (const std::size_t base : {std::size_t{0}, std::size_t{1}, std::size_t{3000}, std::size_t{9000}}) {
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      std::vector<std::vector<float>> sent;
      std::vector<std::vector<float>> received;
      for (int peer = 0; peer < size; ++peer) {
        sent.push_back(block(own, peer, base));
        received.emplace_back(block(peer, own, base).size(), -1.0F);
      }
      std::vector<std::span<const std::byte>> inputs;
      std::vector<std::span<std::byte>> outputs;
      for (auto& values : sent) inputs.push_back(bytes(values));
      for (auto& values : received) outputs.push_back(bytes(values));
      all_to_all(side.exchange, outputs, inputs);
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_EQ(received[static_cast<std::size_t>(peer)], block(peer, own, base)) << peer << ' ' << base;
        EXPECT_EQ(sent[static_cast<std::size_t>(peer)], block(own, peer, base));
      }
    }));
  }
}

// Rank 0 expects another size from rank 1 than rank 1 sends; what fits elsewhere does not matter.
TEST(AllToAllSizes, ThatDoNotFitAreAnErrorOfBothRanks) {
  for (const std::size_t expected : {std::size_t{2}, std::size_t{6}, std::size_t{100'000}}) {
    const auto errors = on_ranks(2, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport), {.kind = CollectiveKind::all_to_all, .dtype = DType::float32});
      const bool is_first = side.transport->rank() == 0;
      std::vector<float> input(4);
      std::vector<float> from_first(4);
      std::vector<float> from_second(is_first ? expected : 4);
      const std::vector<std::span<const std::byte>> inputs = {bytes(input), bytes(input)};
      const std::vector<std::span<std::byte>> outputs = {bytes(from_first), bytes(from_second)};
      try {
        all_to_all(side.exchange, outputs, inputs);
      } catch (const DistError& e) {
        side.transport->abort(e.what());  // as the backend does
        throw;
      }
    });
    ASSERT_TRUE(errors[0]) << expected;
    EXPECT_THROW(std::rethrow_exception(errors[0]), DistNetworkError);
    EXPECT_EQ(peer_of(errors[0]), 1) << message_of(errors[0]);
  }
}

}  // namespace
}  // namespace dlaunch::internal
