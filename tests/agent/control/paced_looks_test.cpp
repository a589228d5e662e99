#include "agent/control/paced_looks.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(PacedLooksTest, FewNodesHaveALookAfterEachMessage) {
  const TimePoint now{std::chrono::seconds(100)};
  PacedLooks looks;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(looks.take(now, PacedLooks::few));
  EXPECT_FALSE(looks.due());
}

TEST(PacedLooksTest, ThePauseAfterALookGrowsWithTheNodes) {
  constexpr std::size_t nodes = 4000;
  const Duration pause = nodes * PacedLooks::pause_for_a_node;
  const TimePoint now{std::chrono::seconds(100)};
  PacedLooks looks;
  EXPECT_TRUE(looks.take(now, nodes));
  EXPECT_FALSE(looks.due());
  EXPECT_FALSE(looks.take(now + pause - Duration(1), nodes));
  EXPECT_EQ(looks.due(), now + pause);
  EXPECT_FALSE(looks.take_due(now + pause - Duration(1)));
  EXPECT_TRUE(looks.take_due(now + pause));
  EXPECT_FALSE(looks.due());
  EXPECT_FALSE(looks.take_due(now + 2 * pause)) << "nothing has come since";
  EXPECT_FALSE(looks.take(now + pause, nodes)) << "the look that was due counts";
  EXPECT_TRUE(looks.take(now + 2 * pause, nodes));
}

}  // namespace
}  // namespace dlaunch::agent
