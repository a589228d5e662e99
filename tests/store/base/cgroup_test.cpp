#include "store/base/cgroup.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace dlaunch::store
