#include "store/base/locked_dir.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

namespace fs = std::filesystem;

class LockedDirTest : public testing::Test {
 protected:
  LockedDir make() {
    const auto made = make_locked_dir(folder_.path());
    EXPECT_TRUE(made.ok());
    return made ? *made : LockedDir{};
  }
  std::vector<std::string> dead() {
    std::vector<std::string> paths;
    for_each_dead_job(folder_.path(), [&](const LockedDir& one) { paths.push_back(one.path); });
    return paths;
  }
  test::TemporaryFolder folder_;
};

TEST_F(LockedDirTest, IsNamedAfterItsAgentAndForItsUserOnly) {
  const auto made = make_locked_dir(folder_.path(), 4711);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(made->exists());
  EXPECT_TRUE(fs::path(made->path).filename().string().starts_with("dlaunch-job-4711-")) << made->path;
  struct stat about {};
  ASSERT_EQ(stat(made->path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  EXPECT_NE(fcntl(made->fd, F_GETFD) & FD_CLOEXEC, 0) << "a worker must not keep it locked";
  close(made->fd);
  EXPECT_FALSE(LockedDir{}.exists());
}

TEST_F(LockedDirTest, BelongsToADeadJobOnceItsLastDescriptorIsClosed) {
  const LockedDir one = make();
  const int second = dup(one.fd);
  close(one.fd);
  EXPECT_TRUE(dead().empty()) << "as if another process of the job lived";
  close(second);
  EXPECT_EQ(dead(), std::vector<std::string>{one.path});
}

TEST_F(LockedDirTest, IsLockedWhileItIsRemoved) {
  const LockedDir one = make();
  close(one.fd);
  int calls = 0;
  for_each_dead_job(folder_.path(), [&](const LockedDir&) {
    ++calls;
    EXPECT_TRUE(dead().empty()) << "two processes would remove it";
  });
  EXPECT_EQ(calls, 1);
}

TEST_F(LockedDirTest, OnlyDirectoriesOfItsNameCount) {
  fs::create_directory(folder_.path() + "/other");
  std::ofstream(folder_.path() + "/dlaunch-job-1-file") << "x";
  const LockedDir one = make();
  fs::create_directory_symlink(one.path, folder_.path() + "/dlaunch-job-1-link");
  close(one.fd);
  EXPECT_EQ(dead(), std::vector<std::string>{one.path});
}

TEST_F(LockedDirTest, APlaceThatCannotHoldOneIsNamed) {
  const auto made = make_locked_dir(folder_.path() + "/missing");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message(),
            "cannot make a directory in " + folder_.path() + "/missing: No such file or directory");
  EXPECT_TRUE(dead().empty());
  for_each_dead_job(folder_.path() + "/missing", [](const LockedDir&) { FAIL(); });
}

TEST_F(LockedDirTest, FoldersAreListedWithoutFiles) {
  fs::create_directory(folder_.path() + "/b");
  fs::create_directory(folder_.path() + "/.a");
  std::ofstream(folder_.path() + "/file") << "x";
  auto found = folders_in(folder_.path());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<std::string>{".a", "b"}));
  EXPECT_TRUE(folders_in(folder_.path() + "/file").empty());
}

}  // namespace
}  // namespace dlaunch::store
