// How the parameters of a unit are divided.

#include "runtime/gradients/shard_layout.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(ShardLayout, LiesWithoutGapsAndIsDividedEvenly) {
  EXPECT_EQ(shard_layout(std::vector<std::size_t>{3, 5, 2}, 2), (ShardLayout{{0, 3, 8}, 10, 5}));
  EXPECT_EQ(shard_layout(std::vector<std::size_t>{3, 5, 2}, 3), (ShardLayout{{0, 3, 8}, 10, 4}));
  EXPECT_EQ(shard_layout(std::vector<std::size_t>{0, 1}, 4), (ShardLayout{{0, 0}, 1, 1}));
  EXPECT_EQ(shard_layout({}, 4), (ShardLayout{{}, 0, 0}));
}

TEST(ShardLayout, AParameterIsPartOfItsInnermostUnit) {
  const std::vector<std::string> units = {"block", "block.1", "bl"};
  EXPECT_EQ(unit_of("block.0.weight", units), 0U);
  EXPECT_EQ(unit_of("block.1.weight", units), 1U);
  EXPECT_EQ(unit_of("block.10.weight", units), 0U);
  EXPECT_EQ(unit_of("bl.weight", units), 2U);
  EXPECT_EQ(unit_of("blo.weight", units), std::nullopt);
  EXPECT_EQ(unit_of("block", units), std::nullopt);  // a parameter of this name
  EXPECT_EQ(unit_of("weight", {}), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::internal
