#include "launcher/topology/cpu_list.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(CpuList, ThereAndBack) {
  for (const char* list : {"", "0", "0,1", "0-2", "0-3,8,10-12,4095"})
    EXPECT_EQ(to_list(*parse_cpu_list(list)), list);
  EXPECT_EQ(to_list(*parse_cpu_list("3,1-2,2\n")), "1-3");
  for (const char* wrong : {"a", "1-", "-1", "3-1", "1,,2", "1,", "99999999", "0-99999999", "1 2"})
    EXPECT_FALSE(parse_cpu_list(wrong).ok()) << wrong;
}

TEST(CpuList, CpusAreSortedAndEachIsThereOnce) {
  EXPECT_EQ(*parse_cpu_list("7,3-4,4,0"), (Cpus{0, 3, 4, 7}));
  EXPECT_EQ(*parse_cpu_list("\n"), Cpus{}) << "as the kernel writes an empty set";
}

TEST(CpuList, AMalformedListIsQuoted) {
  EXPECT_EQ(parse_cpu_list("1,x\n").error().message(), "not a list of CPUs: '1,x\n'");
}

}  // namespace
}  // namespace dlaunch::launcher
