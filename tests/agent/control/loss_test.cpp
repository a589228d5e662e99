#include "agent/control/loss.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(Loss, HasACauseAndARemedy) {
  EXPECT_EQ(describe({LossKind::broken, "connection reset by peer"}), "connection reset by peer");
  EXPECT_EQ(describe({LossKind::silent, "no answer for 5 s"}),
            "no answer for 5 s (--node-timeout): its machine is off or frozen, or the network to it is cut");
  EXPECT_EQ(remedy_of({LossKind::silent, "no answer for 5 s"}, "b"), "dlaunch doctor --peer=b");
  EXPECT_EQ(remedy_of({LossKind::broken, "connection reset by peer"}, "b:5"), "dlaunch doctor --peer=b:5");
  EXPECT_TRUE(describe({LossKind::closed, "EOF"}).starts_with("its dlaunch ended without notice: "));
  EXPECT_EQ(remedy_of({LossKind::closed, "EOF"}, "b"),
            "look at the terminal of dlaunch on b, and at dmesg and journalctl there");
  EXPECT_EQ(remedy_of({LossKind::released, "it came back"}, "b"), "");
}

TEST(Loss, KindDecidesWhateverTheText) {
  EXPECT_EQ(describe({LossKind::broken, "closed by the peer"}), "closed by the peer");
  EXPECT_EQ(describe({LossKind::cut, "closed by the peer"}), "closed by the peer");
  EXPECT_EQ(describe({LossKind::released, "closed by the peer"}), "closed by the peer");
  EXPECT_TRUE((Loss{LossKind::silent, "closed by the peer"}.other_may_go_on()));
  EXPECT_TRUE((Loss{LossKind::cut, "closed by the peer"}.other_may_go_on()));
  EXPECT_FALSE((Loss{LossKind::closed, "connection timed out"}.other_may_go_on()));
}

}  // namespace
}  // namespace dlaunch::agent
