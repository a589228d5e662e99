#include "agent/model/call_mismatch.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

constexpr std::string_view a = "all_reduce(1000 x float32, sum)";
constexpr std::string_view b = "broadcast(1000 x float32, src 0)";

std::string report(int self, std::string_view own, int other, std::string_view others,
                   const std::string& group = "default", int sequence = 5) {
  return "step 4\ntrain: rank " + std::to_string(self) + ", all_reduce #" + std::to_string(sequence) +
         " of group " + group + ", peer " + std::to_string(other) +
         " on b: the ranks call different operations: rank " + std::to_string(other) + " calls " +
         std::string(others) + ", this rank " + std::string(own) + "\n";
}

TEST(CallMismatch, TheRankThatDiffersFromTheOthersIsNamed) {
  const std::string zero = report(0, a, 1, b);
  const std::string one = report(1, b, 2, a);
  const auto found = find_call_mismatch({zero, "", "Killed", one});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->text,
            "the ranks call different operations at #5 of group default: rank 1 calls broadcast(1000 x "
            "float32, src 0); "
            "ranks 0, 2 call all_reduce(1000 x float32, sum)");
  EXPECT_EQ(found->remedy,
            "find what makes rank 1 differ before #5 of group default: a branch that depends on the rank, or "
            "data of "
            "another size (a smaller last batch)");
}

TEST(CallMismatch, OfTwoRanksNeitherIsBlamed) {
  const std::string zero = report(0, a, 1, b);
  const auto found = find_call_mismatch({zero});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, -1);
  EXPECT_TRUE(found->remedy.starts_with("find what makes the ranks differ before #5"));
}

TEST(CallMismatch, AReportThatIsPassedOnIsThePeers) {
  const std::string passed =
      "rank 3, all_reduce #5 of group default, peer 1 on b: it gave up: broadcast(9) failed there: peer 0: "
      "the ranks call "
      "different operations: rank 0 calls X, this rank Y";
  const auto found = find_call_mismatch({passed});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "the ranks call different operations at #5 of group default: rank 0 calls X; rank 1 calls Y");
}

TEST(CallMismatch, ARankThatPassesAReportOnAddsItsOwnCall) {
  const std::string differ = "peer 2 on b: the ranks call different operations: rank 2 calls A, this rank B";
  const std::string once =
      "rank 3, all_reduce #5 of group default, peer 1 on b: it gave up: B failed there: " + differ +
      "; here: A";
  const auto found = find_call_mismatch({once});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->text,
            "the ranks call different operations at #5 of group default: rank 1 calls B; ranks 2, 3 call A");
  EXPECT_EQ(found->rank, 1);
  const std::string twice =
      "rank 0, all_reduce #5 of group default, peer 3 on b: it gave up: A failed there: peer 1 on b: it gave "
      "up: B failed "
      "there: " +
      differ + "; here: A";
  EXPECT_EQ(find_call_mismatch({twice})->text,
            "the ranks call different operations at #5 of group default: rank 1 calls B; ranks 0, 2 call A");
}

TEST(CallMismatch, OneLineIsEnough) {
  const std::string zero = report(0, a, 1, b);
  EXPECT_EQ("step 4\n" + call_mismatch_line(zero) + "\n", zero);
  EXPECT_EQ(call_mismatch_line(""), "");
  EXPECT_EQ(call_mismatch_line("loss is NaN\n"), "");
  EXPECT_LE(call_mismatch_line(zero + std::string(1000, 'x')).size(), 400U);
}

TEST(CallMismatch, TheFirstPlaceCounts) {
  const std::string late = report(0, a, 1, b, "default", 9);
  const std::string early = report(2, b, 3, a, "default", 7);
  EXPECT_NE(find_call_mismatch({late, early})->text.find(" at #7 of"), std::string::npos);
}

TEST(CallMismatch, OtherGroupsAndOtherTextsAreIgnored) {
  const std::string other_group = report(0, a, 1, b, "tensor");
  EXPECT_FALSE(find_call_mismatch({other_group}));
  EXPECT_FALSE(find_call_mismatch({}));
  EXPECT_FALSE(find_call_mismatch({"the ranks call different operations: rank 1 calls A, this rank B"}));
  EXPECT_FALSE(
      find_call_mismatch({"rank x, op #5 of group default, peer 1: the ranks call different operations: rank "
                          "1 calls A, this rank B"}));
  EXPECT_FALSE(find_call_mismatch(
      {"rank 0, op #5 of group default, peer 1: the ranks call different operations: rank 1"}));
  const std::string same = report(0, a, 1, a);
  EXPECT_FALSE(find_call_mismatch({same}));
}

}  // namespace
}  // namespace dlaunch::agent
