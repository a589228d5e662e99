// One rank collects from all, or distributes to all: from every root, by the tree and directly.

#include "runtime/collectives/gather.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/runtime/collectives/sides.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::values_of;

class Gather : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Gather, testing::Range(1, 10));

// Floats in a block: none, some for the tree, and those on both sides of its limit for this number of ranks.
std::vector<std::size_t> block_lengths(int size) {
  const std::size_t limit = Exchange::fragment_limit / sizeof(float) / static_cast<std::size_t>(size);
  return {0, 1, 7, limit, limit + 1, 30'000};
}

TEST_P(Gather, CollectsAtEveryRoot) {
  const int size = GetParam();
  for (int root = 0; root < size; ++root) {
    for (const std::size_t count : block_lengths(size)) {
      for (const bool in_place : {false, true}) {
        expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
          Side side(std::move(transport));
          const int own = side.transport->rank();
          std::vector<float> input = values_of(own, count);
          std::vector<std::vector<float>> outputs;
          std::vector<std::span<std::byte>> places;
          if (own == root) outputs.assign(static_cast<std::size_t>(size), std::vector<float>(count, -1.0F));
          if (own == root && in_place) outputs[static_cast<std::size_t>(own)] = input;
          for (auto& output : outputs) places.push_back(bytes(output));
          const bool uses_output = own == root && in_place;
          gather(side.exchange, places, uses_output ? places[static_cast<std::size_t>(own)] : bytes(input),
                 root);
          for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
            EXPECT_EQ(outputs[rank], values_of(static_cast<int>(rank), count)) << root << ' ' << count;
          }
          EXPECT_EQ(input, values_of(own, count));
        }));
      }
    }
  }
}

TEST_P(Gather, ScattersFromEveryRoot) {
  const int size = GetParam();
  for (int root = 0; root < size; ++root) {
    for (const std::size_t count : block_lengths(size)) {
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        const int own = side.transport->rank();
        std::vector<std::vector<float>> inputs;
        std::vector<std::span<const std::byte>> places;
        for (int rank = 0; own == root && rank < size; ++rank) inputs.push_back(values_of(rank, count));
        for (auto& input : inputs) places.push_back(bytes(input));
        std::vector<float> output(count, -1.0F);
        scatter(side.exchange, bytes(output), places, root);
        EXPECT_EQ(output, values_of(own, count)) << root << ' ' << count;
        for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
          EXPECT_EQ(inputs[rank], values_of(static_cast<int>(rank), count));
        }
      }));
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
