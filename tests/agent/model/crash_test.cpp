#include "agent/model/crash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string_view>

#include "tests/agent/model/made_page.h"

namespace dlaunch::agent {
namespace {

class CrashTest : public ::testing::Test {
 protected:
  CrashTest() {
    raw().state = page::Crash::whole;
    raw().signal = SIGSEGV;
    raw().code = SEGV_MAPERR;
    raw().address = 8;
    raw().modules = 2;
    std::ranges::copy(std::string_view("/usr/lib/libc.so.6"), raw().paths[0].begin());
    std::ranges::copy(std::string_view("/x/train"), raw().paths[1].begin());
  }
  page::Crash& raw() { return page_.raw().header.crash; }
  void add(std::uint8_t module, std::uint64_t offset) {
    raw().module_of[raw().frames] = module;
    raw().offsets[raw().frames++] = offset;
  }
  Crash parse() {
    auto crash = parse_crash(page_.bytes());
    EXPECT_TRUE(crash);
    return crash.value_or(Crash{});
  }

  MadePage page_{0, 2};
};

TEST_F(CrashTest, AFaultIsNamedWithItsFunction) {
  add(1, 0x1234);
  add(1, 0x20);
  add(page::Crash::no_module, 0xff);
  Crash crash = parse();
  EXPECT_EQ(cause_of(crash), "segmentation fault at address 0x8 (a null pointer), in train+0x1234");
  crash.frames[0].function = "step(int)";
  EXPECT_EQ(cause_of(crash), "segmentation fault at address 0x8 (a null pointer), in step(int)");
  EXPECT_EQ(stack_of(crash), "#0 step(int) in train+0x1234\n#1 train+0x20\n#2 0xff");
  EXPECT_EQ(source_lines_command(crash), "addr2line -Cfpie /x/train 0x1234 0x20");
  crash.code = SI_USER;
  crash.address = 99;
  EXPECT_EQ(cause_of(crash), "sent by process 99, in step(int)");
  crash.address = 4711;
  EXPECT_EQ(cause_of(crash), "raised by the process itself, in step(int)");
}

TEST_F(CrashTest, TheProgramsFunctionIsNamedThatCalledTheLibrary) {
  add(0, 0x10);
  add(1, 0x20);
  EXPECT_EQ(cause_of(parse()),
            "segmentation fault at address 0x8 (a null pointer), in libc.so.6+0x10, called by train+0x20");
  EXPECT_EQ(source_lines_command(parse()), "addr2line -Cfpie /x/train 0x20");
}

TEST_F(CrashTest, OfAnErrorThatAbortsOnlyTheProgramsFramesAreShown) {
  raw().signal = SIGABRT;
  raw().code = SI_TKILL;
  add(0, 0x10);
  EXPECT_EQ(cause_of(parse()), "aborted, in libc.so.6+0x10") << "it has no others";
  add(1, 0x20);
  add(0, 0x30);
  EXPECT_EQ(cause_of(parse()), "aborted, in train+0x20");
  EXPECT_EQ(stack_of(parse()), "#0 train+0x20\n#1 libc.so.6+0x30");
  raw().terminate = 1;
  EXPECT_EQ(cause_of(parse()), "std::terminate was called without an exception, in train+0x20");
  std::ranges::copy(std::string_view("std::bad_alloc: \x1b[2J"), raw().what.begin());
  EXPECT_EQ(cause_of(parse()).find('\x1b'), std::string::npos);
  EXPECT_TRUE(cause_of(parse()).starts_with("std::bad_alloc: "));
  EXPECT_TRUE(cause_of(parse()).ends_with(", thrown in train+0x20"));
}

TEST_F(CrashTest, OtherFaults) {
  raw().signal = SIGFPE;
  raw().code = FPE_INTDIV;
  EXPECT_EQ(cause_of(parse()), "integer division by zero");
  raw().code = FPE_FLTINV;
  EXPECT_EQ(cause_of(parse()), "arithmetic error");
  raw().signal = SIGILL;
  EXPECT_EQ(cause_of(parse()), "illegal instruction");
  raw().signal = SIGBUS;
  raw().address = 0x10000;
  EXPECT_EQ(cause_of(parse()), "bus error at address 0x10000");
  EXPECT_EQ(stack_of(parse()), "");
  EXPECT_EQ(source_lines_command(parse()), "");
}

TEST_F(CrashTest, AnythingElseIsNoCrash) {
  EXPECT_TRUE(parse_crash(page_.bytes()));
  EXPECT_FALSE(parse_crash(page_.bytes().first(100)));
  raw().frames = page::Crash::max_frames + 1;
  EXPECT_FALSE(parse_crash(page_.bytes()));
  raw().frames = 0;
  raw().signal = 1000;
  EXPECT_FALSE(parse_crash(page_.bytes()));
  raw().signal = SIGSEGV;
  raw().state = page::Crash::writing;
  EXPECT_FALSE(parse_crash(page_.bytes()));
}

TEST_F(CrashTest, LongStacksAreCut) {
  for (int i = 0; i < 48; ++i) add(1, 1);
  const std::string stack = stack_of(parse());
  EXPECT_EQ(std::ranges::count(stack, '\n'), 12);
  EXPECT_TRUE(stack.ends_with("\n... and 36 more"));
}

}  // namespace
}  // namespace dlaunch::agent
