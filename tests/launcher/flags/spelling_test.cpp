#include "launcher/flags/spelling.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Words = std::vector<std::string>;

const Words flags{"nnodes", "node-rank", "pass-local-rank", "nproc-per-node", "tee"};

TEST(Spelling, EachKindOfMistypingIsOneStep) {
  for (const char* typed : {"nnodes", "nnode", "nnodess", "nmodes", "nndoes"})
    EXPECT_EQ(nearest(typed, {"nnodes"}), "nnodes") << typed;
}

TEST(Spelling, AThirdOfTheWordMayBeWrong) {
  EXPECT_EQ(nearest("nnxxes", {"nnodes"}), "nnodes");
  EXPECT_EQ(nearest("nxxxes", {"nnodes"}), "");
  EXPECT_EQ(nearest("te", {"tee"}), "tee");
  EXPECT_EQ(nearest("t", {"tee"}), "");
  EXPECT_EQ(nearest("b", {"a"}), "a") << "one mistake is allowed in any word";
}

TEST(Spelling, TheNearestIsTakenAndOfEquallyNearOnesTheFirst) {
  EXPECT_EQ(nearest("abcdefgh", {"abcdefxx", "abcdefgx"}), "abcdefgx");
  EXPECT_EQ(nearest("abcx", {"abca", "abcb"}), "abca");
  EXPECT_EQ(nearest("x", {}), "");
  EXPECT_EQ(nearest("", {"abcdef"}), "");
}

TEST(Spelling, AnEndOrABeginningIsMeantIfNothingIsNear) {
  EXPECT_EQ(likely("nnode", flags), Words{"nnodes"});
  EXPECT_EQ(likely("rank", flags), (Words{"node-rank", "pass-local-rank"}));
  EXPECT_EQ(likely("nproc", flags), Words{"nproc-per-node"});
  EXPECT_EQ(likely("nprocs", flags), Words{"nproc-per-node"}) << "without its last letter";
  EXPECT_TRUE(likely("zzzz", flags).empty());
  EXPECT_TRUE(likely("pas", flags).empty()) << "it is too short";
}

}  // namespace
}  // namespace dlaunch::launcher
