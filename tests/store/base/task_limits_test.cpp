#include "store/base/task_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/base/cgroup.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

TEST(ControlGroups, TheOneOfAControllerIsFoundInBothHierarchies) {
  EXPECT_EQ(find_cgroup("0::/user.slice/x.scope\n", "memory"), (Cgroup{2, "/user.slice/x.scope"}));
  EXPECT_EQ(find_cgroup("5:cpu:/c\n4:hugetlb,memory:/m:n\n0::/u\n", "memory"), (Cgroup{1, "/m:n"}));
  EXPECT_EQ(find_cgroup("8:pids:/p\n4:memory:/m\n0::/u\n", "pids"), (Cgroup{1, "/p"}));
  EXPECT_EQ(find_cgroup("0::/u", "pids"), (Cgroup{2, "/u"}));
  EXPECT_EQ(find_cgroup("5:memory2:/c\n", "memory"), std::nullopt);
  EXPECT_EQ(find_cgroup(":\n\nx\n", "memory"), std::nullopt);
  EXPECT_EQ(find_cgroup("", "memory"), std::nullopt);
  EXPECT_EQ(parent_cgroup("/a/b"), "/a");
  EXPECT_EQ(parent_cgroup("/a"), "/");
  EXPECT_EQ(parent_cgroup("/"), "/");
}

// The kernel's files in a temporary folder.
class TaskLimitsTest : public testing::Test {
 protected:
  void has(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] TaskLimits look() const {
    return task_limits({folder_.path() + "/proc", folder_.path() + "/cgroup"});
  }

  test::TemporaryFolder folder_;
};

TEST_F(TaskLimitsTest, TheTightestOnTheWayUpAndAllRefusals) {
  has("proc/self/cgroup", "0::/a/b\n");
  has("cgroup/a/b/cgroup.procs", "");
  has("cgroup/a/b/pids.max", "max\n");
  has("cgroup/a/b/pids.events", "max 2\n");
  has("cgroup/a/pids.max", "12\n");
  has("cgroup/a/pids.events", "max 3\n");
  has("cgroup/pids.max", "100\n");
  EXPECT_TRUE(look().describe.starts_with("pids.max is 12 in cgroup /a")) << look().describe;
  EXPECT_EQ(look().refusals, 5U);
}

TEST_F(TaskLimitsTest, OfItsOwnHierarchyAndOfTheOneBesideOthers) {
  has("proc/self/cgroup", "8:pids:/p\n0::/u\n");
  has("cgroup/pids/p/cgroup.procs", "");
  has("cgroup/pids/p/pids.max", "7\n");
  EXPECT_TRUE(look().describe.starts_with("pids.max is 7 in cgroup /p")) << look().describe;
  has("proc/self/cgroup", "4:memory:/m\n0::/u\n");
  has("cgroup/unified/u/cgroup.procs", "");
  has("cgroup/unified/u/pids.max", "8\n");
  EXPECT_TRUE(look().describe.starts_with("pids.max is 8 in cgroup /u")) << look().describe;
}

TEST_F(TaskLimitsTest, InAContainerItsOwnPartIsSeen) {
  has("proc/self/cgroup", "0::/the/hosts/path\n");
  has("cgroup/cgroup.procs", "");
  has("cgroup/pids.max", "9\n");
  EXPECT_TRUE(look().describe.starts_with("pids.max is 9 in cgroup /")) << look().describe;
}

TEST_F(TaskLimitsTest, WithoutControlGroupsNothingIsRefused) {
  EXPECT_EQ(look().refusals, 0U);
  EXPECT_EQ(look().describe.find("pids.max"), std::string::npos);
}

}  // namespace
}  // namespace dlaunch::store
