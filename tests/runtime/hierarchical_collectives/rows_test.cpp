#include "runtime/hierarchical_collectives/rows.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace dlaunch::internal {
namespace {

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

class Rows : public testing::Test {
 protected:
  Rows() {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i);
  }
  Bytes at(std::size_t begin, std::size_t size) { return Bytes(memory_).subspan(begin, size); }
  static std::vector<int> values(ConstBytes bytes) {
    std::vector<int> values;
    for (const std::byte byte : bytes) values.push_back(static_cast<int>(byte));
    return values;
  }

  std::array<std::byte, 16> memory_;
  std::array<std::byte, 16> scratch_{};
};

TEST_F(Rows, BlocksInOnePieceAreTheRow) {
  const std::vector<Bytes> blocks{at(2, 3), at(5, 0), at(5, 4)};
  Bytes scratch(scratch_);
  const Bytes row = row_for(blocks, scratch);
  EXPECT_EQ(row.data(), memory_.data() + 2);
  EXPECT_EQ(row.size(), 7U);
  EXPECT_EQ(scratch.size(), scratch_.size());  // nothing is taken

  const std::vector<ConstBytes> sent(blocks.begin(), blocks.end());
  EXPECT_EQ(row_of(sent, scratch).data(), memory_.data() + 2);
}

TEST_F(Rows, ScatteredBlocksTakeScratch) {
  const std::vector<ConstBytes> blocks{at(8, 2), at(1, 3)};
  Bytes scratch(scratch_);
  const ConstBytes row = row_of(blocks, scratch);
  EXPECT_EQ(row.data(), scratch_.data());
  EXPECT_EQ(values(row), (std::vector<int>{8, 9, 1, 2, 3}));
  EXPECT_EQ(scratch.data(), scratch_.data() + 5);

  const std::vector<Bytes> received{at(8, 2), at(1, 3)};
  EXPECT_EQ(row_for(received, scratch).data(), scratch_.data() + 5);
  EXPECT_EQ(scratch.size(), scratch_.size() - 10);
}

TEST_F(Rows, UnpackReversesPack) {
  const std::vector<ConstBytes> blocks{at(3, 1), at(10, 0), at(12, 4), at(0, 2)};
  const Bytes row = Bytes(scratch_).first(size_of_all(std::span(blocks)));
  pack(row, blocks);
  std::array<std::byte, 7> copies{};
  const std::vector<Bytes> targets{Bytes(copies).subspan(6, 1), Bytes(copies).first(0),
                                   Bytes(copies).subspan(2, 4), Bytes(copies).first(2)};
  unpack(targets, row);
  EXPECT_EQ(values(copies), (std::vector<int>{0, 1, 12, 13, 14, 15, 3}));
}

}  // namespace
}  // namespace dlaunch::internal
