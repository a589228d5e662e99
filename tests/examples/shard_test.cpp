#include "examples/train_mnist/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace mnist {
namespace {

TEST(Shard, order_is_a_permutation) {
  for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
    const auto order = epoch_order(count, 1, 0);
    EXPECT_EQ(order.size(), count);
    EXPECT_EQ(std::set<std::uint32_t>(order.begin(), order.end()).size(), count);
    EXPECT_TRUE(std::ranges::all_of(order, [count](std::uint32_t i) { return i < count; }));
  }
}

TEST(Shard, order_depends_on_seed_and_epoch_only) {
  EXPECT_EQ(epoch_order(500, 1, 2), epoch_order(500, 1, 2));
  EXPECT_NE(epoch_order(500, 1, 2), epoch_order(500, 1, 3));
  EXPECT_NE(epoch_order(500, 1, 2), epoch_order(500, 2, 2));
  EXPECT_NE(epoch_order(500, 1, 2), epoch_order(500, 2, 1));
  EXPECT_NE(epoch_order(500, 1, 0), epoch_order(500, std::uint64_t{1} << 32U, 0));
}

// Fixed once and for all: a job of different machines, and a checkpoint of an older build, rely on it.
TEST(Shard, order_is_the_same_on_every_machine) {
  EXPECT_EQ(epoch_order(8, 1, 0), (std::vector<std::uint32_t>{7, 6, 0, 5, 2, 3, 1, 4}));
}

TEST(Shard, every_image_is_used_once_an_epoch_by_one_worker) {
  constexpr std::size_t count = 103;
  constexpr std::size_t batch_size = 20;
  for (const std::size_t world : {1U, 2U, 3U, 4U, 7U, 20U, 33U}) {
    const auto order = epoch_order(count, 1, 0);
    std::vector<std::uint32_t> used;
    for (std::size_t step = 0; step < steps_per_epoch(count, batch_size); ++step) {
      const auto batch = batch_of(order, step, batch_size);
      for (std::size_t rank = 0; rank < world; ++rank) {
        const Range own = part_of(batch.size(), rank, world);
        EXPECT_LE(own.size(), batch.size() / world + 1);
        for (const std::uint32_t image : batch.subspan(own.begin, own.size())) used.push_back(image);
      }
    }
    EXPECT_EQ(used, order) << world << " workers";  // the same batches, whoever works on them
  }
}

TEST(Shard, last_batch_is_what_is_left) {
  const auto order = epoch_order(103, 1, 0);
  EXPECT_EQ(steps_per_epoch(103, 20), 6U);
  EXPECT_EQ(batch_of(order, 5, 20).size(), 3U);
  EXPECT_EQ(steps_per_epoch(100, 20), 5U);
  EXPECT_EQ(steps_per_epoch(5, 20), 1U);
  EXPECT_EQ(batch_of(epoch_order(5, 1, 0), 0, 20).size(), 5U);
}

}  // namespace
}  // namespace mnist
