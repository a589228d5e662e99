// The values of one rank for all.

#include "runtime/collectives/broadcast.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/collectives/sides.h"
#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::values_of;

class Broadcast : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Broadcast, testing::Range(1, 10));

TEST_P(Broadcast, CopiesTheSource) {
  const int size = GetParam();
  for (int src = 0; src < size; ++src) {
    for (const std::size_t count : {0U, 1U, 8193U, 16384U, 16385U, 700001U}) {
      if (count > 20000 && src != size / 2) continue;  // long ones from one source are enough
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        std::vector<float> values = values_of(side.transport->rank(), count);
        broadcast(side.exchange, bytes(values), src);
        EXPECT_TRUE(test::same_bits(values, values_of(src, count)));
      }));
    }
  }
}
}  // namespace
}  // namespace dlaunch::internal
