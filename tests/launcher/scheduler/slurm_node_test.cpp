#include "launcher/scheduler/slurm_node.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

// Slurm 22.05's format, with a comment that an administrator wrote.
constexpr const char* several_lines =
    "NodeName=c03 Arch=x86_64 CoresPerSocket=1 \n"
    "   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.42\n"
    "   AvailableFeatures=(null)\n"
    "   Gres=(null)\n"
    "   NodeAddr=10.1.2.3 NodeHostName=host3 Port=17001 Version=22.05.8\n"
    "   OS=Linux 6.1.0 #1 SMP Debian 6.1 \n"
    "   Comment=was NodeAddr=10.9.9.9 NodeName=c04\n"
    "\n";

std::string address(std::string_view printed, const std::string& node = "c03") {
  auto found = slurm_node_address(printed, node);
  EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message());
  return found.ok() ? *found : "";
}
std::string why_not(std::string_view printed, const std::string& node = "c03") {
  auto found = slurm_node_address(printed, node);
  EXPECT_FALSE(found.ok()) << (found.ok() ? *found : "");
  return found.ok() ? "" : found.error().message();
}

TEST(SlurmNode, ItsAddressIsFoundInBothFormats) {
  EXPECT_EQ(address(several_lines), "10.1.2.3");
  EXPECT_EQ(
      address("NodeName=c03 Arch=x86_64 Gres=(null) NodeAddr=10.1.2.3 NodeHostName=c03 OS=Linux 6 #1\n"),
      "10.1.2.3");
  EXPECT_EQ(address("NodeName=c03 NodeAddr=fd00::3%eth0"), "fd00::3%eth0");
  EXPECT_EQ(address("NodeName=c03 NodeAddr=c03-ib.example"), "c03-ib.example");
}

TEST(SlurmNode, AnotherNodesRecordDoesNotCount) {
  const std::string two = "NodeName=c02 NodeAddr=10.1.2.2\n\nNodeName=c03 NodeAddr=10.1.2.3\n";
  EXPECT_EQ(address(two), "10.1.2.3");
  EXPECT_EQ(address(two, "c02"), "10.1.2.2");
  EXPECT_EQ(why_not("NodeName=c03 Arch=x\nNodeName=c02 NodeAddr=10.1.2.2\n"),
            "scontrol prints 'NodeName=c03 Arch=x'");
  EXPECT_EQ(why_not("NodeName=c03 Comment=NodeName=c03 NodeName=c03 NodeAddr=evil"),
            "scontrol prints 'NodeName=c03 Comment=NodeName=c03 NodeName=c03 NodeAddr=evil'")
      << "a comment that looks like a record of its own";
}

TEST(SlurmNode, TheFirstAddressOfARecordCounts) {
  EXPECT_EQ(address("NodeName=c03 NodeAddr=10.1.2.3 Reason=x NodeAddr=evil"), "10.1.2.3");
}

TEST(SlurmNode, WhatScontrolReportsIsTheReason) {
  EXPECT_EQ(why_not("Node c03 not found\n"), "scontrol prints 'Node c03 not found'");
  EXPECT_EQ(why_not("slurm_load_node error: Unable to contact slurm controller (connect failure)\nmore"),
            "scontrol prints 'slurm_load_node error: Unable to contact slurm controller (connect failure)'");
  EXPECT_EQ(why_not(""), "scontrol prints nothing about it");
  EXPECT_EQ(why_not("\x1b[31m" + std::string(500, 'x')),
            "scontrol prints '?[31m" + std::string(115, 'x') + "'");
}

TEST(SlurmNode, AnAddressThatHelpsNobodyIsNone) {
  EXPECT_EQ(why_not("NodeName=c03 NodeAddr=c03"), "its NodeAddr is the same name");
  for (const std::string& bad : {std::string(), std::string("-o"), std::string("a;b"), std::string("a'b"),
                                 std::string("(null)"), std::string(256, 'a')}) {
    EXPECT_EQ(why_not("NodeName=c03 NodeAddr=" + bad + " Port=1"), "scontrol prints no valid NodeAddr for it")
        << bad;
  }
  EXPECT_EQ(why_not("NodeName=c03 Arch=x"), "scontrol prints no valid NodeAddr for it");
}

}  // namespace
}  // namespace dlaunch::launcher
