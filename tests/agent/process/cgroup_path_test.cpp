// The directory of the process's own cgroup, from the kernel's texts as found on real machines.

#include "agent/process/cgroup_path.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

constexpr std::string_view unified =
    "24 30 0:22 / /proc rw,nosuid - proc proc rw\n"
    "33 24 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(CgroupPath, IsBelowTheMountPoint) {
  EXPECT_EQ(cgroup_directory(unified, "0::/user.slice/user-1000.slice/session-2.scope\n"),
            "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope");
  EXPECT_EQ(cgroup_directory(unified, "0::/\n"), "/sys/fs/cgroup");
}

TEST(CgroupPath, IsFoundBesideVersionOne) {
  constexpr std::string_view hybrid =
      "40 39 0:34 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
      "48 39 0:42 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(cgroup_directory(hybrid, "4:memory:/elsewhere\n1:name=systemd:/\n0::/job\n"),
            "/sys/fs/cgroup/unified/job");
}

TEST(CgroupPath, StartsAtWhatIsMounted) {
  constexpr std::string_view part =
      "33 24 0:28 /docker/4f2a /sys/fs/cgroup ro,nosuid master:9 - cgroup2 cgroup rw\n";
  EXPECT_EQ(cgroup_directory(part, "0::/docker/4f2a/init\n"), "/sys/fs/cgroup/init");
  EXPECT_EQ(cgroup_directory(part, "0::/docker/4f2a\n"), "/sys/fs/cgroup");
  EXPECT_EQ(cgroup_directory(part, "0::/docker/4f2abc\n"), std::nullopt);
  EXPECT_EQ(cgroup_directory(part, "0::/system.slice\n"), std::nullopt);
}

TEST(CgroupPath, NamesMayContainAnyCharacter) {
  EXPECT_EQ(cgroup_directory("33 24 0:28 / /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw\n", "0::/x y\n"),
            "/mnt/a b\\c/x y");
}

TEST(CgroupPath, IsNoneWithoutVersionTwo) {
  EXPECT_EQ(
      cgroup_directory("40 39 0:34 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", "4:memory:/\n"),
      std::nullopt);
  EXPECT_EQ(cgroup_directory(unified, "4:memory:/a\n"), std::nullopt);
  EXPECT_EQ(cgroup_directory("", ""), std::nullopt);
  EXPECT_EQ(cgroup_directory("33 24 cgroup2\n - \n33 - cgroup2 x", "0::/\n"), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::agent
