#include "agent/process/elf_machine.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

// `data`: 1 little-endian, 2 big-endian.
std::string header(char data, unsigned char first, unsigned char second) {
  std::string bytes = "\177ELF\2";
  bytes += data;
  bytes.resize(18);
  bytes += static_cast<char>(first);
  bytes += static_cast<char>(second);
  return bytes;
}

TEST(ElfMachine, AProgramOfAnotherMachineIsNamed) {
  EXPECT_EQ(why_not_run(header(1, 183, 0), "x86_64"),
            "it is an aarch64 program, and this machine is x86_64 (build it for this one)");
  EXPECT_EQ(why_not_run(header(1, 62, 0), "aarch64"),
            "it is an x86_64 program, and this machine is aarch64 (build it for this one)");
  EXPECT_EQ(why_not_run(header(2, 0, 21), "x86_64"),
            "it is a ppc64 program, and this machine is x86_64 (build it for this one)");
  EXPECT_EQ(why_not_run(header(1, 2, 1), "x86_64"),
            "it is an ELF (machine 258) program, and this machine is x86_64 (build it for this one)");
}

TEST(ElfMachine, OneOfThisMachineIsDamaged) {
  EXPECT_EQ(why_not_run(header(1, 62, 0), "x86_64"),
            "it is an x86_64 program, but damaged, or not one that this kernel runs");
  EXPECT_EQ(why_not_run(header(1, 243, 0), "riscv64"),
            "it is a riscv program, but damaged, or not one that this kernel runs");
  EXPECT_EQ(why_not_run("\177ELF\2\1", "x86_64"), "it is a compiled program, but cut short");
}

TEST(ElfMachine, OtherFilesAreNotMentioned) {
  EXPECT_EQ(why_not_run("#!/bin/sh\necho a script", "x86_64"), "");
  EXPECT_EQ(why_not_run("", "x86_64"), "");
}

}  // namespace
}  // namespace dlaunch::agent
