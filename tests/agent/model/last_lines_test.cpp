#include "agent/model/last_lines.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(LastLines, AreRecognizedOnTheScreen) {
  EXPECT_TRUE(are_shown("a\nb", "x\na\nb\n"));
  EXPECT_TRUE(are_shown("a\nb", "[rank 1]: a\r\n[rank 1]: b\r\ndlaunch: rank 1 exited with code 1\n"));
  EXPECT_FALSE(are_shown("a\nb", "a\nx\nb\n")) << "a line of another rank is in between";
  EXPECT_FALSE(are_shown("a\nb", "b\na\n"));
  EXPECT_FALSE(are_shown("a\nb", "b\n")) << "the beginning has left the screen";
  EXPECT_FALSE(are_shown("", "a\n"));
  EXPECT_FALSE(are_shown("a", ""));
}

}  // namespace
}  // namespace dlaunch::agent
