// Whether tensors of one operation overlap.

#include "runtime/group/aliasing.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/group/tensor_parts.h"

namespace dlaunch::internal {
namespace {

class Aliases : public testing::Test {
 protected:
  // Elements [begin, end) of one piece of memory.
  Tensor part(std::size_t begin, std::size_t end) { return slice(Tensor::of(memory_), begin, end - begin); }

  bool alias(const std::vector<Tensor>& written, const std::vector<Tensor>& read) {
    return aliases(written, read);
  }

 private:
  std::vector<int> memory_ = std::vector<int>(100);
};

TEST_F(Aliases, NeighboursDoNotOverlap) {
  EXPECT_FALSE(alias({part(10, 20), part(0, 10), part(20, 30)}, {part(30, 40), part(40, 41)}));
  EXPECT_FALSE(alias({}, {part(0, 10)}));
  EXPECT_FALSE(alias({part(0, 10)}, {}));
}

TEST_F(Aliases, OneCommonElementIsEnough) {
  EXPECT_TRUE(alias({part(0, 11), part(10, 20)}, {}));
  EXPECT_TRUE(alias({part(10, 20), part(0, 11)}, {}));
  EXPECT_TRUE(alias({part(0, 10)}, {part(9, 20)}));
  EXPECT_TRUE(alias({part(10, 20)}, {part(0, 11)}));
}

TEST_F(Aliases, OneMayContainTheOther) {
  EXPECT_TRUE(alias({part(0, 30), part(10, 20)}, {}));
  EXPECT_TRUE(alias({part(0, 30)}, {part(10, 20)}));
  EXPECT_TRUE(alias({part(10, 20)}, {part(0, 30)}));
  EXPECT_TRUE(alias({part(10, 20)}, {part(10, 20)}));
}

TEST_F(Aliases, WhatIsOnlyReadMayOverlap) {
  EXPECT_FALSE(alias({}, {part(0, 10), part(5, 15)}));
  EXPECT_FALSE(alias({part(20, 30)}, {part(0, 10), part(5, 15), part(0, 10)}));
}

TEST_F(Aliases, TensorsWithoutElementsOverlapNothing) {
  EXPECT_FALSE(alias({part(0, 10), part(5, 5)}, {part(7, 7)}));
  EXPECT_FALSE(alias({part(5, 5), part(5, 5), Tensor()}, {part(0, 10), Tensor()}));
}

TEST_F(Aliases, AgreesWithAComparisonOfAllPairs) {
  std::mt19937 random(5);
  const auto draw = [&random](unsigned below) { return static_cast<std::size_t>(random() % below); };
  struct Range {
    std::size_t begin;
    std::size_t end;
  };
  const auto meet = [](Range a, Range b) {
    return a.begin < a.end && b.begin < b.end && a.begin < b.end && b.begin < a.end;
  };
  int overlapping = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<Range> ranges;
    std::vector<Tensor> written;
    std::vector<Tensor> read;
    for (int k = 0; k < 6; ++k) {
      const std::size_t begin = draw(95);
      ranges.push_back({begin, begin + draw(6)});
      (k < 3 ? written : read).push_back(part(ranges.back().begin, ranges.back().end));
    }
    bool wanted = false;
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = a + 1; b < 6; ++b) wanted |= meet(ranges[a], ranges[b]);
    }
    ASSERT_EQ(alias(written, read), wanted) << i;
    overlapping += wanted ? 1 : 0;
  }
  EXPECT_GT(overlapping, 300);
  EXPECT_LT(overlapping, 2700);
}

}  // namespace
}  // namespace dlaunch::internal
