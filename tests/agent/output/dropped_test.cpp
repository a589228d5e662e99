#include "agent/output/dropped.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(Dropped, CountsLinesThatAreMissingInPart) {
  Dropped dropped;
  dropped.add("");
  EXPECT_EQ(dropped, Dropped{});
  dropped.add("a\nb");
  EXPECT_EQ(dropped, (Dropped{3, 2, true}));
  dropped.add("c\n");
  EXPECT_EQ(dropped, (Dropped{5, 2, false}));
  dropped.add("d");
  dropped.add("\n");
  EXPECT_EQ(dropped, (Dropped{7, 3, false}));
}

}  // namespace
}  // namespace dlaunch::agent
