#include "launcher/commands/process_table.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>

#include "tests/launcher/commands/waiting_child.h"

namespace dlaunch::launcher {
namespace {

TEST(ProcessTable, AProcessIsReadFromTheKernel) {
  const WaitingChild child;
  const ProcessUse use = ProcessTable::read().tree(child.pid());
  EXPECT_EQ(use.processes, 1);
  EXPECT_EQ(use.threads, 1);
  EXPECT_GT(use.memory, 0U);
  EXPECT_EQ(use.memory % static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), 0U);
}

TEST(ProcessTable, ATreeIsTheSumOfItsProcesses) {
  const ProcessUse before = ProcessTable::read().tree(getpid());
  ASSERT_GE(before.processes, 1);
  const WaitingChild one;
  const WaitingChild other;
  const ProcessTable table = ProcessTable::read();
  const ProcessUse tree = table.tree(getpid());
  EXPECT_EQ(tree.processes, before.processes + 2);
  EXPECT_EQ(tree.threads, before.threads + 2);
  EXPECT_GE(tree.memory, table.tree(one.pid()).memory + table.tree(other.pid()).memory);
}

TEST(ProcessTable, AnyNameOfAProcessIsPassedOver) {
  const WaitingChild child([] { prctl(PR_SET_NAME, "a) R 1 (b"); });
  EXPECT_EQ(ProcessTable::read().tree(child.pid()).threads, 1);
  EXPECT_EQ(ProcessTable::read().tree(child.pid()).processes, 1);
}

TEST(ProcessTable, WhatHasEndedUsesNothing) {
  pid_t pid = -1;
  {
    const WaitingChild child;
    pid = child.pid();
  }
  const ProcessUse use = ProcessTable::read().tree(pid);
  EXPECT_EQ(use.processes, 0);
  EXPECT_EQ(use.memory, 0U);
}

}  // namespace
}  // namespace dlaunch::launcher
