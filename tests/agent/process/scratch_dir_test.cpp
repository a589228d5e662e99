#include "agent/process/scratch_dir.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

class ScratchDirTest : public testing::Test {
 protected:
  LockedDir make() {
    auto made = make_scratch_dir(folder_.path());
    EXPECT_TRUE(made.ok());
    return made ? *made : LockedDir{};
  }
  test::TemporaryFolder folder_;
};

TEST_F(ScratchDirTest, IsForThisUserOnly) {
  const LockedDir dir = make();
  struct stat about {};
  ASSERT_EQ(stat(dir.path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
  EXPECT_EQ(fs::path(dir.path).parent_path(), folder_.path());
  close(dir.fd);
}

TEST_F(ScratchDirTest, IsRemovedWithItsFiles) {
  const LockedDir dir = make();
  std::ofstream(dir.path + "/0_0.error.json") << "{}";
  remove_scratch_dir(dir);
  EXPECT_FALSE(fs::exists(dir.path));
  remove_scratch_dir(dir);
  remove_scratch_dir({});
  close(dir.fd);
}

TEST_F(ScratchDirTest, MakingOneRemovesThoseOfDeadJobsOnly) {
  const LockedDir dead = make();
  std::ofstream(dead.path + "/0_0.error.json") << "{}";
  close(dead.fd);  // like the end of the job's last process
  const LockedDir living = make();
  fs::create_directory(folder_.path() + "/other");
  const LockedDir newest = make();
  EXPECT_FALSE(fs::exists(dead.path));
  EXPECT_TRUE(fs::exists(living.path));
  EXPECT_TRUE(fs::exists(folder_.path() + "/other"));
  EXPECT_TRUE(fs::exists(newest.path));
  close(living.fd);
  close(newest.fd);
}

TEST_F(ScratchDirTest, AnErrorNamesTheFolderAndTheRemedy) {
  const auto made = make_scratch_dir(folder_.path() + "/missing");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().message(), "cannot make a directory in " + folder_.path() +
                                        "/missing: No such file or directory; free some space there, or set "
                                        "TMPDIR to another directory");
}

}  // namespace
}  // namespace dlaunch::agent
