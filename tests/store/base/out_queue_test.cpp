#include "store/base/out_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace dlaunch::store {
namespace {

using Pieces = std::vector<std::string>;

Pieces pieces_of(const OutQueue& queue, std::size_t skipped = 0, std::size_t most = 100) {
  Pieces pieces;
  queue.each(skipped, most, [&](ByteSpan bytes) { pieces.emplace_back(as_text(bytes)); });
  return pieces;
}

class OutQueueTest : public testing::Test {
 protected:
  const std::string large = std::string(OutQueue::shared_from, 'x');
  std::size_t memory = 0;
  OutQueue queue{memory};
};

TEST_F(OutQueueTest, KeepsTheOrderOfOwnAndSharedBytes) {
  queue.append(as_byte_span("ab"));
  queue.append(as_byte_span("c"));
  queue.append(SharedBytes(large));
  queue.append(as_byte_span("d"));
  EXPECT_EQ(pieces_of(queue), (Pieces{"abc", large, "d"}));
  EXPECT_EQ(queue.size(), 4 + large.size());
}

TEST_F(OutQueueTest, CopiesShortSharedBytes) {
  const SharedBytes value("short");
  queue.append(value);
  EXPECT_FALSE(value.is_shared());
  EXPECT_EQ(memory, 5U);
}

TEST_F(OutQueueTest, SharesLongBytesAndCountsOnlyTheirPiece) {
  const SharedBytes value(large);
  queue.append(value);
  EXPECT_TRUE(value.is_shared());
  EXPECT_LT(memory, large.size());
  queue.clear();
  EXPECT_FALSE(value.is_shared());
  EXPECT_EQ(memory, 0U);
}

TEST_F(OutQueueTest, SkipsBytesThatAreSentAndLimitsThePieces) {
  queue.append(as_byte_span("abc"));
  queue.append(SharedBytes(large));
  queue.append(as_byte_span("de"));
  EXPECT_EQ(pieces_of(queue, 2), (Pieces{"c", large, "de"}));
  EXPECT_EQ(pieces_of(queue, 3, 1), (Pieces{large}));
  EXPECT_EQ(pieces_of(queue, 4 + large.size()), (Pieces{"e"}));
  EXPECT_EQ(pieces_of(queue, queue.size()), Pieces{});
}

TEST_F(OutQueueTest, CountsItsPartOfBytesThatOnlyAnswersHold) {
  const auto total = std::make_shared<std::uint64_t>(0);
  {
    SharedBytes value(large);
    queue.append(value);
    value.count_in(total);
  }
  EXPECT_EQ(*total, large.size());
  EXPECT_EQ(queue.memory(), memory + large.size());
  queue.clear();
  EXPECT_EQ(*total, 0U);
}

TEST_F(OutQueueTest, SwapAndDestructionKeepTheCount) {
  {
    OutQueue other(memory);
    queue.append(as_byte_span("abc"));
    queue.swap(other);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(pieces_of(other), Pieces{"abc"});
    EXPECT_EQ(memory, 3U);
  }
  EXPECT_EQ(memory, 0U);
}

}  // namespace
}  // namespace dlaunch::store
