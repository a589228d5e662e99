// The sizes of an all_to_all, compared between the ranks.

#include "runtime/group/splits.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlaunch::internal {
namespace {

// What a rank with these sizes says, by peer.
std::string splits_of(const std::vector<std::size_t>& expected, const std::vector<std::size_t>& sent) {
  static std::vector<float> memory(100);
  const auto tensors = [](const std::vector<std::size_t>& counts) {
    std::vector<Tensor> result;
    for (const std::size_t count : counts) result.push_back(Tensor::of(std::span(memory).first(count)));
    return result;
  };
  return splits_text(tensors(expected), tensors(sent));
}

TEST(Splits, ThatFitMayDiffer) {
  EXPECT_EQ(split_mismatch(std::vector{splits_of({1, 5}, {1, 0}), splits_of({0, 7}, {5, 7})}), "");
  EXPECT_EQ(split_mismatch(std::vector{splits_of({3}, {3})}), "");
}

TEST(Splits, ThatDoNotFitNameSenderAndReceiver) {
  EXPECT_EQ(split_mismatch(std::vector{splits_of({1, 5}, {1, 2}), splits_of({3, 7}, {5, 7})}),
            "the sizes do not match: rank 0 sends 2 elements to rank 1, which expects 3");
  // Also to itself.
  EXPECT_EQ(split_mismatch(std::vector{splits_of({2}, {3})}),
            "the sizes do not match: rank 0 sends 3 elements to rank 0, which expects 2");
}

TEST(Splits, OnlyTheFirstOfManyAreNamed) {
  const std::vector<std::size_t> ones(4, 1);
  const std::vector<std::size_t> twos(4, 2);
  std::vector<std::string> all(4, splits_of(ones, ones));
  all[0] = splits_of(twos, ones);
  const std::string four = split_mismatch(all);
  EXPECT_TRUE(four.ends_with("rank 3 sends 1 elements to rank 0, which expects 2")) << four;
  EXPECT_EQ(four.find("more"), std::string::npos);
  all[1] = splits_of({1, 1, 1, 9}, ones);
  EXPECT_EQ(split_mismatch(all), four + "; and 1 more");
  EXPECT_TRUE(split_mismatch(std::vector<std::string>(4, splits_of(twos, ones))).ends_with("; and 12 more"));
}

// A rank of another kind of call has no splits: every size of it counts as 0.
TEST(Splits, AMissingNumberCountsAsZero) {
  EXPECT_EQ(split_mismatch(std::vector<std::string>{"0 0 0 4 ", ""}),
            "the sizes do not match: rank 0 sends 4 elements to rank 1, which expects 0");
  EXPECT_EQ(split_mismatch(std::vector<std::string>{"", ""}), "");
  EXPECT_EQ(split_mismatch(std::vector<std::string>{"0 0 5 nonsense", ""}),
            "the sizes do not match: rank 1 sends 0 elements to rank 0, which expects 5");
}

}  // namespace
}  // namespace dlaunch::internal
