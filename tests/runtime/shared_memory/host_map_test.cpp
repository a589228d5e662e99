#include "runtime/shared_memory/host_map.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(HostMap, CountsHostsByTheirLowestRankAndRanksWithinThem) {
  const int keys[] = {7, 3, 7, 5, 3};
  const HostMap map = HostMap::of(std::span<const int>(keys));
  EXPECT_EQ(map.ranks(), 5U);
  ASSERT_EQ(map.hosts(), 3U);
  EXPECT_EQ(map.ranks_of(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(map.ranks_of(1), (std::vector<int>{1, 4}));
  EXPECT_EQ(map.ranks_of(2), (std::vector<int>{3}));
  EXPECT_EQ(map.host_of(4), 1U);
  EXPECT_EQ(map.place_of(4), 1U);
  EXPECT_EQ(map.place_of(3), 0U);
}

}  // namespace
}  // namespace dlaunch::internal
