#include "launcher/commands/log_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

class LogReaderTest : public testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  void rotate() { fs::rename(path_, path_ + ".1"); }
  // The new lines since the last call.
  std::string read() {
    shown_.clear();
    reader_.read_new_lines();
    return shown_;
  }

  const test::TemporaryFolder folder_;
  const std::string path_ = fs::path(folder_.path()) / "stdout.log";
  std::string shown_;
  LogReader reader_{path_, "[3] ", [this](const std::string& lines) { shown_ += lines; }};
};

TEST_F(LogReaderTest, PrefixesEachWholeLine) {
  EXPECT_EQ(read(), "") << "the file does not exist yet";
  append("one\ntwo\nth");
  EXPECT_EQ(read(), "[3] one\n[3] two\n");
  append("ree\n");
  EXPECT_EQ(read(), "[3] three\n");
}

TEST_F(LogReaderTest, FollowsARotation) {
  append("one\n");
  EXPECT_EQ(read(), "[3] one\n");
  append("two\n");
  rotate();
  append("three\n");
  EXPECT_EQ(read(), "[3] two\n[3] three\n") << "the rest of the old file comes before the new one";
}

TEST_F(LogReaderTest, BeginsWithTheOldestRotatedFile) {
  append("one\n");
  rotate();
  fs::rename(path_ + ".1", path_ + ".2");
  append("two\n");
  rotate();
  append("three\n");
  EXPECT_EQ(read(), "[3] one\n[3] two\n[3] three\n");
}

TEST_F(LogReaderTest, FinishDeliversTheLastLineWithoutAnEnd) {
  append("one\nla");
  EXPECT_EQ(read(), "[3] one\n");
  shown_.clear();
  reader_.finish();
  EXPECT_TRUE(shown_.starts_with("[3] la")) << shown_;
}

}  // namespace
}  // namespace dlaunch::launcher
