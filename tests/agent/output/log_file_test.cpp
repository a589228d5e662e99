#include "agent/output/log_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

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

TEST_F(LogFileTest, RotatesAtALineBoundaryAndKeepsTheLast) {
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

TEST_F(LogFileTest, AFullDiskIsReportedOnceAndStopsNothing) {
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

}  // namespace
}  // namespace dlaunch::agent
