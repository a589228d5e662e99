// Which items each rank takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "dlaunch/sampler.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch {
namespace {

using Items = std::vector<std::size_t>;
using Rest = SamplerOptions::Rest;

Items items(std::size_t size, int ranks, int rank, SamplerOptions options, std::uint64_t epoch = 0) {
  const DistributedSampler sampler(size, ranks, rank, options);
  Items indices = sampler.indices(epoch);
  EXPECT_EQ(indices.size(), sampler.size());
  return indices;
}

TEST(DistributedSampler, RanksTakeItemsInTurn) {
  const SamplerOptions padded{.shuffle = false};
  EXPECT_EQ(items(7, 3, 0, padded), (Items{0, 3, 6}));
  EXPECT_EQ(items(7, 3, 1, padded), (Items{1, 4, 0}));
  EXPECT_EQ(items(7, 3, 2, padded), (Items{2, 5, 1}));
  EXPECT_EQ(items(7, 3, 2, {.shuffle = false, .rest = Rest::drop}), (Items{2, 5}));
  EXPECT_EQ(items(7, 3, 0, {.shuffle = false, .rest = Rest::drop}), (Items{0, 3}));
  EXPECT_EQ(items(7, 3, 0, {.shuffle = false, .rest = Rest::keep}), (Items{0, 3, 6}));
  EXPECT_EQ(items(7, 3, 2, {.shuffle = false, .rest = Rest::keep}), (Items{2, 5}));
}

TEST(DistributedSampler, ShufflesByEpochAsTorchDoes) {
  EXPECT_EQ(items(10, 2, 0, {}), (Items{4, 7, 3, 0, 6}));  // torch.randperm(10), seed 0: 4 1 7 5 3 9 0 8 6 2
  EXPECT_EQ(items(10, 2, 1, {}), (Items{1, 5, 9, 8, 2}));
  EXPECT_EQ(items(10, 1, 0, {.seed = 40}, 2), (Items{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));  // seed 42
  EXPECT_NE(items(10, 2, 0, {}, 1), items(10, 2, 0, {}, 0));
}

TEST(DistributedSampler, ItemsAreSharedOut) {
  for (const Rest rest : {Rest::pad, Rest::drop, Rest::keep}) {
    for (const std::size_t size : {0U, 1U, 2U, 5U, 8U, 63U, 64U}) {
      for (const int ranks : {1, 2, 3, 8}) {
        std::map<std::size_t, int> taken;
        std::size_t least = size + 1;
        std::size_t most = 0;
        std::size_t all = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const Items own = items(size, ranks, rank, {.seed = 3, .rest = rest}, 5);
          for (const std::size_t item : own) ++taken[item];
          least = std::min(least, own.size());
          most = std::max(most, own.size());
          all += own.size();
        }
        for (const auto& [item, times] : taken) {
          EXPECT_LT(item, size);
          if (rest != Rest::pad) {
            EXPECT_EQ(times, 1);
          }
        }
        EXPECT_LE(most - least, rest == Rest::keep ? 1U : 0U);
        if (rest != Rest::drop) {
          EXPECT_EQ(taken.size(), size);
        }
        if (rest == Rest::drop) {
          EXPECT_EQ(all, size / static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks));
        }
      }
    }
  }
}

TEST(DistributedSampler, NeedsARankThatExists) {
  EXPECT_EQ(test::error_of([] { const DistributedSampler sampler(10, 2, 2); }),
            "DistributedSampler: rank 2 of 2 does not exist");
  EXPECT_EQ(test::error_of([] { const DistributedSampler sampler(10, 2, -1); }),
            "DistributedSampler: rank -1 of 2 does not exist");
  EXPECT_EQ(test::error_of([] { const DistributedSampler sampler(10, 0, 0); }),
            "DistributedSampler: rank 0 of 0 does not exist");
}

TEST(DistributedSampler, RejectsMoreItemsThanItCanOrder) {
  EXPECT_EQ(test::error_of([] { const DistributedSampler sampler(std::size_t{1} << 32U, 1, 0); }),
            "DistributedSampler: there are 4294967296 items; the limit is 2^32");
}

}  // namespace
}  // namespace dlaunch
