#include "agent/control/loss.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(Loss, SuggestsARemedy) {
  EXPECT_EQ(describe({LossKind::broken, "connection reset by peer"}, "b"), "connection reset by peer");
  EXPECT_EQ(describe({LossKind::silent, "no answer for 5 s"}, "b"),
            "no answer for 5 s (--node-timeout): its machine is off or frozen, or the network to "
            "it is cut; "
            "try dlaunch doctor --peer=b");
  EXPECT_TRUE(describe({LossKind::closed, "EOF"}, "b").starts_with("its dlaunch ended without notice: "));
}

TEST(Loss, KindDecidesWhateverTheText) {
  EXPECT_EQ(describe({LossKind::broken, "closed by the peer"}, "b"), "closed by the peer");
  EXPECT_EQ(describe({LossKind::cut, "closed by the peer"}, "b"), "closed by the peer");
  EXPECT_EQ(describe({LossKind::released, "closed by the peer"}, "b"), "closed by the peer");
  EXPECT_TRUE((Loss{LossKind::silent, "closed by the peer"}.other_may_go_on()));
  EXPECT_TRUE((Loss{LossKind::cut, "closed by the peer"}.other_may_go_on()));
  EXPECT_FALSE((Loss{LossKind::closed, "connection timed out"}.other_may_go_on()));
}

}  // namespace
}  // namespace dlaunch::agent
