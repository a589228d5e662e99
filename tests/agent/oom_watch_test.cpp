#include "agent/oom_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/store/temporary_folder.h"

namespace dlaunch::agent {
namespace {

// The kernel's files of a control group, as files.
class OomWatchTest : public testing::Test {
 protected:
  OomWatchTest() { std::filesystem::create_directories(folder_.path() + "/a/b"); }
  void has(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() + "/a/b/" + name) << text;
  }
  OomWatch watch() { return OomWatch(folder_.path(), "1:name=systemd:/x\n0::/a/b\n"); }

  test::TemporaryFolder folder_;
};

TEST_F(OomWatchTest, TellsAKillOnce) {
  has("memory.events", "low 0\nhigh 0\nmax 12\noom 3\noom_kill 3\noom_group_kill 0\n");
  has("memory.max", "2147483648\n");
  OomWatch oom = watch();
  EXPECT_EQ(oom.explain(), "");
  has("memory.events", "max 13\noom 4\noom_kill 4\n");
  EXPECT_EQ(oom.explain(), "the kernel's out-of-memory killer (the limit is 2.0 GiB)");
  EXPECT_EQ(oom.explain(), "");
}

TEST_F(OomWatchTest, WithoutALimitTheMachineWasFull) {
  has("memory.events", "oom_kill 0\n");
  has("memory.max", "max\n");
  OomWatch oom = watch();
  has("memory.events", "oom_kill 1\n");
  EXPECT_EQ(oom.explain(), "the kernel's out-of-memory killer");
}

TEST_F(OomWatchTest, WhatCannotBeReadExplainsNothing) {
  EXPECT_EQ(watch().explain(), "");
  OomWatch no_group(folder_.path(), "4:memory:/x\n");
  EXPECT_EQ(no_group.explain(), "");
  has("memory.events", "nonsense");
  OomWatch oom = watch();
  has("memory.events", "oom_kill 7\n");
  EXPECT_EQ(oom.explain(), "");  // it is not known how often it had struck before
}

}  // namespace
}  // namespace dlaunch::agent
