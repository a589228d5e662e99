#include "agent/observe/memory_events.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(MemoryEvents, OnlyTheCountOfKillsIsRead) {
  EXPECT_EQ(oom_kills("oom 5\noom_kill 3\noom_kill_disable 0\n"), 3U);
  EXPECT_EQ(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2"), 2U);
  EXPECT_EQ(oom_kills("oom_kill \n"), std::nullopt);
  EXPECT_EQ(oom_kills("oom_kill 99999999999999999999\n"), std::nullopt);
}

TEST(MemoryEvents, NoLimitIsNone) {
  EXPECT_EQ(memory_limit("1024\n"), 1024U);
  EXPECT_EQ(memory_limit("max\n"), std::nullopt);
  EXPECT_EQ(memory_limit("9223372036854771712\n"), std::nullopt);
}

TEST(MemoryEvents, TheKernelsLogNamesItsVictim) {
  const std::string machine = "Out of memory: Killed process 12 (train) total-vm:5kB, UID:0\n";
  const std::string group = "Memory cgroup out of memory: Killed process 12 (train) total-vm:5kB, UID:0\n";
  const std::string detail =
      "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/b,task_memcg=/b,task=train,pid=12,uid=0\n";
  EXPECT_EQ(killed_for_memory(machine, 12), (OomKill{false, ""}));
  EXPECT_EQ(killed_for_memory(machine, 1), std::nullopt);
  EXPECT_EQ(killed_for_memory(machine, 123), std::nullopt);
  EXPECT_EQ(killed_for_memory("Killed process 12 (by somebody) \n", 12), std::nullopt);
  EXPECT_EQ(killed_for_memory(detail + group, 12), (OomKill{true, "/b"}));
  // A pid that was used twice: the last line counts.
  EXPECT_EQ(killed_for_memory(machine + detail + group, 12), (OomKill{true, "/b"}));
  // The kernel omits the detail if it has killed often in a short time.
  EXPECT_EQ(killed_for_memory(detail + group + group, 12), (OomKill{true, ""}));
}

TEST(MemoryEvents, BytesAreWrittenWithTheLargestUnit) {
  EXPECT_EQ(in_bytes(0), "0 bytes");
  EXPECT_EQ(in_bytes(1023), "1023 bytes");
  EXPECT_EQ(in_bytes(1536), "1.5 KiB");
  EXPECT_EQ(in_bytes(2ULL << 30), "2 GiB");
}

}  // namespace
}  // namespace dlaunch::agent
