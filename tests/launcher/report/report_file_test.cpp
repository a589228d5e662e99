#include "launcher/report/report_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ReportFile, ReplacesTheFileAndLeavesNothingBesideIt) {
  const test::TemporaryFolder folder;
  const fs::path path = fs::path(folder.path()) / "report.json";
  ASSERT_TRUE(write_whole(path, "old, and longer"));
  ASSERT_TRUE(check_writable(path));
  ASSERT_TRUE(write_whole(path, "new"));
  EXPECT_EQ(content_of(path), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(ReportFile, ALinkStaysAndItsTargetIsReplaced) {
  const test::TemporaryFolder folder;
  const fs::path target = fs::path(folder.path()) / "target";
  ASSERT_TRUE(write_whole(target, "old"));
  fs::create_symlink(target, fs::path(folder.path()) / "link");
  ASSERT_TRUE(write_whole(fs::path(folder.path()) / "link", "new"));
  EXPECT_TRUE(fs::is_symlink(fs::path(folder.path()) / "link"));
  EXPECT_EQ(content_of(target), "new");
}

TEST(ReportFile, ADirectoryAndAMissingOneAreRejected) {
  const test::TemporaryFolder folder;
  const auto directory = check_writable(folder.path());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().message(),
            "cannot write " + folder.path() + ": it is a directory; choose another path");
  EXPECT_FALSE(check_writable(fs::path(folder.path()) / "missing" / "report.json"));
}

TEST(ReportFile, DroppedOutputIsAddedToNodeZerosReport) {
  DroppedOutput dropped;
  EXPECT_EQ(with_dropped("{\"version\":1}", dropped), "{\"version\":1}");
  dropped.err.add("one\n");
  EXPECT_EQ(
      with_dropped("{\"version\":1}", dropped),
      "{\n  \"version\": 1,\n  \"dropped\": {\n    \"stderr\": {\n      \"lines\": 1,\n      \"bytes\": 4\n"
      "    }\n  }\n}\n");
}

}  // namespace
}  // namespace dlaunch::launcher
