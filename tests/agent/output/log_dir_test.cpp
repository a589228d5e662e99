#include "agent/output/log_dir.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

class LogDirTest : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  test::TemporaryFolder folder_;
};

TEST_F(LogDirTest, ADirectoryIsMadeForEachJobAndTheLatestIsLinked) {
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

TEST_F(LogDirTest, DirectoryIsReportedByItsAbsolutePath) {
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

TEST_F(LogDirTest, ADirectoryThatCannotBeMadeIsNamed) {
  std::ofstream(path("file")) << "x";
  LogOptions options;
  options.dir = path("file");
  const auto made = make_log_dir(options, "x", "/nowhere");
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message().find("cannot make a log directory in " + path("file")), std::string::npos)
      << made.error().message();
}

TEST(LogDir, IsRecognizedByItsName) {
  EXPECT_TRUE(is_log_dir_of("a_b_a1B2c3", "a b", false));
  EXPECT_TRUE(is_log_dir_of("dlaunch_a_b_a1B2c3", "a b", true));
  EXPECT_TRUE(is_log_dir_of("a_b_a1B2c3", "", false));
  EXPECT_FALSE(is_log_dir_of("a_b_a1B2c3", "a", false)) << "the beginning of another job's id";
  EXPECT_FALSE(is_log_dir_of("a_b_a1B2c3", "a b", true));
  EXPECT_FALSE(is_log_dir_of("latest", "", false));
  EXPECT_FALSE(is_log_dir_of("_a1B2c3", "", false));
}

}  // namespace
}  // namespace dlaunch::agent
