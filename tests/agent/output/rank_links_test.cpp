#include "agent/output/rank_links.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

class RankLinksTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  RankLinks::Warn warn() {
    return [this](const std::string& sentence) { warnings.push_back(sentence); };
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> warnings;
};

// Two agents, each with a directory of its own below one --log-dir.
TEST_F(RankLinksTest, AgentsOfOneWorldShareAFolder) {
  RankLinks one(path("d/x_aaaaaa"), false, warn());
  RankLinks two(path("d/x_bbbbbb"), false, warn());
  one.add(0, 7, 0, "out", path("d/x_aaaaaa/attempt_0/0/stdout.log"));
  two.add(0, 7, 1, "err", path("d/x_bbbbbb/attempt_0/0/stderr.log"));
  EXPECT_EQ(fs::read_symlink(path("d/x/0/rank_0.out")), "../../x_aaaaaa/attempt_0/0/stdout.log");
  EXPECT_EQ(fs::read_symlink(path("d/x/0/rank_1.err")), "../../x_bbbbbb/attempt_0/0/stderr.log");
  EXPECT_EQ(fs::read_symlink(path("d/x/latest")), "0");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RankLinksTest, ANewerWorldReplacesTheLinksAndThoseOfLaterRounds) {
  RankLinks older(path("d/x_aaaaaa"), false, warn());
  for (const std::uint32_t round : {0U, 1U, 2U}) older.add(round, 7, 5, "out", path("d/x_aaaaaa/f"));
  fs::create_directory(path("d/x/3"));  // not ours
  RankLinks newer(path("d/x_bbbbbb"), false, warn());
  for (const std::uint32_t round : {0U, 1U}) newer.add(round, 8, 0, "out", path("d/x_bbbbbb/f"));
  for (const std::string round : {"0", "1"}) {
    EXPECT_TRUE(fs::is_symlink(path("d/x/" + round + "/rank_0.out"))) << round;
    EXPECT_FALSE(fs::is_symlink(path("d/x/" + round + "/rank_5.out"))) << round;
  }
  EXPECT_EQ(fs::read_symlink(path("d/x/latest")), "1");
  EXPECT_FALSE(fs::is_symlink(path("d/x/2")));
  EXPECT_TRUE(fs::exists(path("d/x/3")));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("d/x")), fs::directory_iterator()), 6)
      << "two rounds, 3, latest";
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RankLinksTest, ReportsOnceThatTheyCannotBeMade) {
  fs::create_directories(path("d/x/0"));
  RankLinks links(path("d/x_aaaaaa"), false, warn());
  links.add(0, 7, 0, "out", path("d/x_aaaaaa/f"));
  links.add(1, 7, 0, "out", path("d/x_aaaaaa/f"));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("cannot make links by rank to the log files in " + path("d/x") + ": "))
      << warnings[0];
}

TEST(RankLinks, AreBesideANamedDirectoryAndWithinATemporaryOne) {
  EXPECT_EQ(ranks_dir("/d/my_job_a1B2c3", false), "/d/my_job");
  EXPECT_EQ(ranks_dir("/tmp/dlaunch_x_a1B2c3", true), "/tmp/dlaunch_x_a1B2c3/ranks");
  for (const std::string taken : {"", ".", "..", "latest"})
    EXPECT_EQ(ranks_dir("/d/" + taken + "_a1B2c3", false), "/d/" + taken + "_");
}

TEST(RankLinks, AreRecognizedByTheirNames) {
  EXPECT_EQ(rank_of_link("rank_12.out", "out"), 12);
  for (const char* other :
       {"rank_12.err", "rank_.out", "rank_-1.out", "rank_1.out.x", "rank_99999999999.out", "x"})
    EXPECT_EQ(rank_of_link(other, "out"), -1) << other;
}

}  // namespace
}  // namespace dlaunch::agent
