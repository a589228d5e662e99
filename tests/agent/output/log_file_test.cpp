#include "agent/output/log_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "agent/output/log_dir.h"
#include "agent/output/rank_links.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

class LogFileTest : public testing::Test {
 protected:
  std::string path(const std::string& name = "log") const { return folder_.path() + "/" + name; }
  static std::string content(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  LogFile::Warn warn() {
    return [this](const std::string& sentence) { warnings.push_back(sentence); };
  }

  test::TemporaryFolder folder_;
  std::vector<std::string> warnings;
};

TEST_F(LogFileTest, TruncatesAtStartThenAppends) {
  { LogFile(path(), 0, 3, warn()).write("old"); }
  LogFile file(path(), 0, 3, warn());
  file.write("a\n");
  file.write("b");
  EXPECT_EQ(content(path()), "a\nb");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(LogFileTest, TurnsOverBetweenLinesAndKeepsTheLast) {
  LogFile file(path(), 10, 2, warn());
  for (int i = 0; i < 9; ++i) file.write("line " + std::to_string(i) + "\n");
  EXPECT_EQ(content(path()), "line 8\n");
  EXPECT_EQ(content(path("log.1")), "line 7\n");
  EXPECT_EQ(content(path("log.2")), "line 6\n");
  EXPECT_FALSE(fs::exists(path("log.3")));
}

TEST_F(LogFileTest, ALongLineStaysWhole) {
  LogFile file(path(), 10, 2, warn());
  file.write("1\n");
  file.write("a very ");
  file.write("long line\nnext\n");
  EXPECT_EQ(content(path("log.1")), "1\na very long line\n");
  EXPECT_EQ(content(path()), "next\n");
}

TEST_F(LogFileTest, AProgressBarsLinesAreLines) {
  LogFile file(path(), 20, 1, warn());
  for (int i = 10; i < 20; ++i) file.write("\rstep " + std::to_string(i));
  EXPECT_EQ(content(path()), "step 18\rstep 19");
  EXPECT_EQ(content(path("log.1")), "step 16\rstep 17\r");
}

TEST_F(LogFileTest, ALineEndOfTwoBytesIsNotTornApart) {
  LogFile file(path(), 5, 1, warn());
  file.write("abcd\r\nefgh\r\n");
  EXPECT_EQ(content(path("log.1")), "abcd\r\n");
  EXPECT_EQ(content(path()), "efgh\r\n");
}

TEST_F(LogFileTest, WithoutAnyLineTheLimitHoldsTwice) {
  LogFile file(path(), 10, 1, warn());
  for (int i = 0; i < 50; ++i) file.write("xxx");
  EXPECT_EQ(content(path("log.1")), std::string(20, 'x'));
  EXPECT_EQ(content(path()), std::string(150 % 20, 'x'));
}

TEST_F(LogFileTest, LosesNothingHoweverItIsWritten) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::string text;
    for (int i = 0; i < 400; ++i) text += random() % 9 == 0 ? '\n' : static_cast<char>('a' + random() % 26);
    const std::size_t limit = 1 + random() % 60;
    {
      LogFile file(path(), limit, 1000, warn());
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = 1 + random() % 50;
        file.write(std::string_view(text).substr(at, size));
        at += size;
      }
    }
    std::string all = content(path());
    for (int i = 1; fs::exists(path("log." + std::to_string(i))); ++i) {
      const std::string older = content(path("log." + std::to_string(i)));
      EXPECT_TRUE(older.back() == '\n' || older.size() == 2 * limit) << older.size();
      all.insert(0, older);
      fs::remove(path("log." + std::to_string(i)));
    }
    EXPECT_EQ(all, text);
  }
}

TEST_F(LogFileTest, AFullDiskIsSaidOnceAndNeverStopsAnybody) {
  LogFile file("/dev/full", 0, 3, warn());
  file.write("a\n");
  file.write("b\n");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(warnings[0],
            "cannot write /dev/full: No space left on device; the job continues, but this log has a gap");
}

TEST_F(LogFileTest, FailedOpenIsRetried) {
  LogFile file(path("not/yet"), 0, 3, warn());
  file.write("lost\n");
  ASSERT_EQ(warnings.size(), 1U);
  fs::create_directory(path("not"));
  file.write("kept\n");
  EXPECT_EQ(content(path("not/yet")), "kept\n");
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_EQ(warnings[1], "can write to " + path("not/yet") + " again");
}

TEST_F(LogFileTest, ADirectoryIsMadeForEachJobAndTheLatestIsLinked) {
  LogOptions options;
  options.dir = path("logs");
  const auto first = make_log_dir(options, "a/b c", "/nowhere");
  const auto second = make_log_dir(options, "x", "/nowhere");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(first->starts_with(path("logs/a_b_c_"))) << *first;
  EXPECT_NE(*first, *second);
  EXPECT_EQ(fs::canonical(path("logs/latest")), fs::canonical(*second));
  EXPECT_EQ(worker_log_dir("/d", 2, 13), "/d/attempt_2/13");
}

TEST_F(LogFileTest, DirectoryIsReportedByItsAbsolutePath) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  LogOptions options;
  options.dir = "./logs";
  const auto made = make_log_dir(options, "x", "/nowhere");
  const std::string here = fs::current_path();
  fs::current_path(before);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->starts_with(here + "/logs/x_")) << *made;
}

// Two agents, each with a directory of its own in one place.
TEST_F(LogFileTest, AgentsOfOneWorldNameTheirFilesInOnePlace) {
  RankLinks one(path("d/x_aaaaaa"), false, warn());
  RankLinks two(path("d/x_bbbbbb"), false, warn());
  one.add(0, 7, 0, "out", path("d/x_aaaaaa/attempt_0/0/stdout.log"));
  two.add(0, 7, 1, "err", path("d/x_bbbbbb/attempt_0/0/stderr.log"));
  EXPECT_EQ(fs::read_symlink(path("d/x/0/rank_0.out")), "../../x_aaaaaa/attempt_0/0/stdout.log");
  EXPECT_EQ(fs::read_symlink(path("d/x/0/rank_1.err")), "../../x_bbbbbb/attempt_0/0/stderr.log");
  EXPECT_EQ(fs::read_symlink(path("d/x/latest")), "0");
  EXPECT_TRUE(warnings.empty());
}

TEST_F(LogFileTest, ANewerWorldOfTheSameNumberTakesTheNamesAndThoseOfLaterRounds) {
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

TEST_F(LogFileTest, NamesThatCannotBeMadeAreSaidOnce) {
  fs::create_directories(path("d/x/0"));
  RankLinks links(path("d/x_aaaaaa"), false, warn());
  links.add(0, 7, 0, "out", path("d/x_aaaaaa/f"));
  links.add(1, 7, 0, "out", path("d/x_aaaaaa/f"));
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_TRUE(warnings[0].starts_with("cannot make links by rank to the log files in " + path("d/x") + ": "))
      << warnings[0];
}

TEST(RankLinks, TheirPlaceIsBesideANamedDirectoryAndWithinATemporaryOne) {
  EXPECT_EQ(ranks_dir("/d/my_job_a1B2c3", false), "/d/my_job");
  EXPECT_EQ(ranks_dir("/tmp/dlaunch_x_a1B2c3", true), "/tmp/dlaunch_x_a1B2c3/ranks");
  for (const std::string taken : {"", ".", "..", "latest"})
    EXPECT_EQ(ranks_dir("/d/" + taken + "_a1B2c3", false), "/d/" + taken + "_");
}

TEST(RankLinks, AreRecognisedByTheirNames) {
  EXPECT_EQ(rank_of_link("rank_12.out", "out"), 12);
  for (const char* other :
       {"rank_12.err", "rank_.out", "rank_-1.out", "rank_1.out.x", "rank_99999999999.out", "x"})
    EXPECT_EQ(rank_of_link(other, "out"), -1) << other;
}

TEST(LogDir, IsRecognisedByItsName) {
  EXPECT_TRUE(is_log_dir_of("a_b_a1B2c3", "a b", false));
  EXPECT_TRUE(is_log_dir_of("dlaunch_a_b_a1B2c3", "a b", true));
  EXPECT_TRUE(is_log_dir_of("a_b_a1B2c3", "", false));
  EXPECT_FALSE(is_log_dir_of("a_b_a1B2c3", "a", false)) << "the beginning of another job's id";
  EXPECT_FALSE(is_log_dir_of("a_b_a1B2c3", "a b", true));
  EXPECT_FALSE(is_log_dir_of("latest", "", false));
  EXPECT_FALSE(is_log_dir_of("_a1B2c3", "", false));
}

TEST_F(LogFileTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(path("file")) << "x";
  LogOptions options;
  options.dir = path("file");
  const auto made = make_log_dir(options, "x", "/nowhere");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("cannot make a log directory in " + path("file")), std::string::npos)
      << made.error().message();
}

TEST(LogOptions, FilesAreOnlyMadeIfOutputGoesIntoThem) {
  LogOptions options;
  EXPECT_FALSE(wants_log_files(options));
  options.dir = "/somewhere";
  EXPECT_FALSE(wants_log_files(options));
  options.tee.all = Streams::out;
  EXPECT_TRUE(wants_log_files(options));
  options.dir = "/dev/null";
  EXPECT_FALSE(wants_log_files(options));
}

}  // namespace
}  // namespace dlaunch::agent
