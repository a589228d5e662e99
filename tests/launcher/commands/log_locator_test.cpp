#include "launcher/commands/log_locator.h"

#include <gtest/gtest.h>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

namespace fs = std::filesystem;

TEST(LogLocator, NumberedEntriesAreSortedByNumber) {
  const test::TemporaryFolder folder;
  for (const char* name :
       {"attempt_10", "attempt_9", "attempt_0", "attempt_x", "attempt_", "attempt_1x", "other_3"})
    fs::create_directory(fs::path(folder.path()) / name);
  EXPECT_EQ(numbered(folder.path(), attempt_mark), (std::vector<int>{0, 9, 10}));
  EXPECT_TRUE(numbered(fs::path(folder.path()) / "missing", attempt_mark).empty());
}

TEST(LogLocator, ANamedDirectoryOfAJobIsItself) {
  const test::TemporaryFolder folder;
  fs::create_directories(fs::path(folder.path()) / "attempt_0" / "0");
  const auto found = locate_logs(folder.path(), "", {});
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(found->dir, folder.path());
  EXPECT_TRUE(found->agents.empty());
}

TEST(LogLocator, ADirectoryWithoutLogFilesIsAnErrorThatNamesIt) {
  const test::TemporaryFolder folder;
  const auto found = locate_logs(folder.path(), "j", {});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message(), "no log files of a job 'j' in " + folder.path() +
                                         "; give the value of the job's own --log-dir, or a directory in it");
}

TEST(LogLocator, AJobWithoutLinksHasNoRanks) {
  const test::TemporaryFolder folder;
  fs::create_directories(fs::path(folder.path()) / "attempt_0" / "0");
  EXPECT_FALSE(find_ranks(folder.path()));
}

}  // namespace
}  // namespace dlaunch::launcher
