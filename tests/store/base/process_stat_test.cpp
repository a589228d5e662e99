#include "store/base/process_stat.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace dlaunch::store {
namespace {

const std::string numbers =
    " 11 12 13 14 15 4194304 17 18 19 20 210 220 230 240 25 26 7 28 2900 3000 310 320 330 340\n";

TEST(ProcessStat, FieldsAreThoseOfTheManualPage) {
  const auto stat = parse_process_stat("4711 (python3) S" + numbers);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name, "python3");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 11);
  EXPECT_EQ(stat->flags, 4194304U);
  EXPECT_EQ(stat->user, 210);
  EXPECT_EQ(stat->system, 220);
  EXPECT_EQ(stat->children_user, 230);
  EXPECT_EQ(stat->children_system, 240);
  EXPECT_EQ(stat->threads, 7);
  EXPECT_EQ(stat->birth, 2900U);
  EXPECT_EQ(stat->resident_pages, 310U);
  EXPECT_FALSE(stat->has_ended());
}

TEST(ProcessStat, ANameMayHaveParenthesesBlanksAndLineEnds) {
  const auto stat = parse_process_stat("4711 (a) Z 1\n(b ) Z" + numbers);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->name, "a) Z 1\n(b ");
  EXPECT_EQ(stat->parent, 11);
  EXPECT_TRUE(stat->has_ended());
}

TEST(ProcessStat, AnotherLineIsNone) {
  for (const std::string line :
       {"", "4711", "4711 python3 S 1", ")(", "4711 (python3)", "4711 (python3) S 1 2", "4711 (python3) "}) {
    EXPECT_FALSE(parse_process_stat(line)) << line;
  }
  EXPECT_FALSE(parse_process_stat("4711 (python3) SS" + numbers));
  std::string wrong = "4711 (python3) S" + numbers;
  wrong.replace(wrong.find("2900"), 4, "29x0");
  EXPECT_FALSE(parse_process_stat(wrong));
}

TEST(ProcessStat, OfThisProcess) {
  const auto own = process_stat(getpid());
  ASSERT_TRUE(own);
  EXPECT_EQ(own->state, 'R');
  EXPECT_EQ(own->parent, getppid());
  EXPECT_GE(own->threads, 1);
  EXPECT_GT(own->birth, 0U);
  EXPECT_GT(own->resident_pages, 0U);
}

TEST(ProcessStat, OfAProcessThatHasEnded) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const auto ended = process_stat(child);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->has_ended());
  EXPECT_EQ(ended->parent, getpid());
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(process_stat(child)) << "it is reaped";
}

}  // namespace
}  // namespace dlaunch::store
