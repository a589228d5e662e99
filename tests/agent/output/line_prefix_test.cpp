#include "agent/output/line_prefix.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(LinePrefix, ReplacesKnownPlaceholdersAndKeepsOthers) {
  const PrefixFacts facts{"trainer", 7, 1, "b"};
  EXPECT_EQ(expand_prefix("[${role_name}${local_rank}|${rank}|${host}|${hostname}]", facts),
            "[trainer1|7|b|b]");
  EXPECT_EQ(expand_prefix("${time} ${other} $rank ${rank", facts), "${time} ${other} $rank ${rank");
  EXPECT_EQ(expand_prefix("${rank} $x ${y} $", facts), "7 $x ${y} $");
  EXPECT_EQ(expand_prefix("", facts), "");
}

// A role's name may look like a placeholder: it is not expanded again.
TEST(LinePrefix, DoesNotExpandReplacements) {
  EXPECT_EQ(expand_prefix("${role_name}", {"${rank}", 7, 1, "b"}), "${rank}");
}

TEST(LinePrefix, ReplacesEachTime) {
  EXPECT_EQ(with_time("${time} ${time}: ", "12:00"), "12:00 12:00: ");
  EXPECT_EQ(with_time("${time}", "${time}"), "${time}") << "it ends";
  EXPECT_EQ(with_time("[0]: ", "12:00"), "[0]: ");
}

TEST(LinePrefix, ColoursDependOnTheRankAlone) {
  EXPECT_EQ(coloured("x", 0), "\x1b[36mx\x1b[0m");
  EXPECT_EQ(coloured("x", 8), coloured("x", 0));
  EXPECT_NE(coloured("x", 1), coloured("x", 0));
}

TEST(LinePrefix, PrecedesEveryLine) {
  std::string out = "before\n";
  add_prefixed("a\nb\r\n\nhalf\rwhole\nrest", "> ", out);
  EXPECT_EQ(out, "before\n> a\n> b\r\n> \n> half\r> whole\n> rest");
}

}  // namespace
}  // namespace dlaunch::agent
