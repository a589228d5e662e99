#include "store/base/task_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::store {
namespace {

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
