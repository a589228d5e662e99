#include "agent/control/loss_text.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(LossText, SuggestsARemedy) {
  EXPECT_EQ(describe_loss("connection reset by peer", false, "b"), "connection reset by peer");
  EXPECT_EQ(describe_loss("no sign of life for 5 s", true, "b"),
            "no sign of life for 5 s (--node-timeout): its machine is off or does not run, or the network to "
            "it is cut; "
            "try dlaunch doctor --peer=b");
  EXPECT_TRUE(
      describe_loss("closed by the peer", false, "b").starts_with("its dlaunch ended without a word: "));
}

}  // namespace
}  // namespace dlaunch::agent
