#include "launcher/remote/start_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace dlaunch::launcher {
namespace {

TEST(StartTree, UpToItsWidthThisMachineStartsAll) {
  EXPECT_EQ(start_tree(std::vector<bool>(5), 5), std::vector<int>(5, started_from_here));
  EXPECT_EQ(start_tree({}, 5), std::vector<int>());
}

TEST(StartTree, AboveItTheHostsAreCutInEqualParts) {
  EXPECT_EQ(start_tree(std::vector<bool>(7), 2), (std::vector<int>{-1, 0, 0, -1, 3, 3, 5}));
  EXPECT_EQ(start_tree(std::vector<bool>(6), 2), (std::vector<int>{-1, 0, 0, -1, 3, 3}));
}

TEST(StartTree, WithoutAWidthThisMachineStartsAll) {
  EXPECT_EQ(start_tree(std::vector<bool>(1000), 0), std::vector<int>(1000, started_from_here));
}

TEST(StartTree, AChainHasTheWidthOne) {
  EXPECT_EQ(start_tree(std::vector<bool>(4), 1), (std::vector<int>{-1, 0, 1, 2}));
}

TEST(StartTree, HostsThatAreStartedFromHereStartNone) {
  EXPECT_EQ(start_tree({true, false, false, true, false}, 1), (std::vector<int>{-1, -1, 1, -1, 2}));
}

TEST(StartTree, OfAnySizeIsNarrowAndFlat) {
  for (const int hosts : {65, 100, 1000, 4096, 5000, 70'000}) {
    const std::vector<int> starters = start_tree(std::vector<bool>(static_cast<std::size_t>(hosts)), 64);
    std::map<int, int> started;
    std::vector<int> depth(starters.size());
    for (std::size_t i = 0; i < starters.size(); ++i) {
      ASSERT_LT(starters[i], static_cast<int>(i)) << "a host is started by an earlier one";
      ++started[starters[i]];
      if (starters[i] >= 0) depth[i] = depth[static_cast<std::size_t>(starters[i])] + 1;
    }
    for (const auto& [starter, count] : started) EXPECT_LE(count, 64) << starter << " of " << hosts;
    EXPECT_EQ(*std::max_element(depth.begin(), depth.end()), hosts <= 64 * 65 ? 1 : 2) << hosts;
  }
}

}  // namespace
}  // namespace dlaunch::launcher
