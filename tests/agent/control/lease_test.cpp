#include "agent/control/lease.h"

#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// When the next world may begin without a node that has not reported that its workers are gone.
class FenceOfTheNextWorld : public CoordinatorTest {
 protected:
  FenceOfTheNextWorld() {
    job_.nnodes = 3;
    job_.min_nodes = 2;
    job_.node_timeout = seconds(16);
    begin();
    from(0, join(0));
    from(7, join(1));
    from(8, join(2));
    EXPECT_EQ(sent<NewWorld>().size(), 3U);
    began_ = now_;
  }
  // The others have stopped at once.
  void on_node_lost(bool silent) {
    last_ = coordinator_->step(now_, MemberLost{8, {silent ? LossKind::silent : LossKind::closed, "gone"}});
    from(0, Stopped{0});
    from(7, Stopped{0});
    EXPECT_TRUE(sent<NewWorld>().empty());
  }
  bool begins_at(Duration after) {
    now_ = began_ + after - milliseconds(1);
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    EXPECT_TRUE(sent<NewWorld>().empty()) << "too early";
    now_ = began_ + after;
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    return sent<NewWorld>().size() == 2;
  }
  TimePoint began_;
};

TEST_F(FenceOfTheNextWorld, IsTheLastMomentOfItsKeeperAndItsWorkersDeath) {
  now_ += milliseconds(300);
  on_node_lost(true);
  EXPECT_TRUE(begins_at(seconds(16 + 2 + 1)));
}

TEST_F(FenceOfTheNextWorld, IsShortIfItsAgentHasEnded) {
  now_ += milliseconds(300);
  on_node_lost(false);
  EXPECT_TRUE(begins_at(milliseconds(300 + 100)));
}

TEST_F(FenceOfTheNextWorld, IsNotForANodeThatIsBack) {
  Join back = join(2);
  back.joined_once = true;
  back.stopped = false;
  on_node_lost(true);
  from(9, back);
  EXPECT_TRUE(sent<NewWorld>().empty());
  now_ += seconds(30);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_TRUE(sent<NewWorld>().empty()) << "its workers still run";
  from(9, Stopped{0});
  EXPECT_EQ(sent<NewWorld>().size(), 3U);
}

// A member sends a heartbeat at v, which arrives at h: for any two machines' clocks, and any time under way.
TEST(LeaseRules, TheNextWorldBeginsAfterTheLastMomentOfEveryLease) {
  for (const Duration timeout : {Duration(milliseconds(500)), Duration(seconds(2)), Duration(seconds(60))}) {
    const LeaseRules rules(timeout);
    const TimePoint v{seconds(1000)};
    for (const Duration under_way : {Duration(0), timeout / 3, 2 * timeout}) {
      const TimePoint h = v + under_way;
      EXPECT_LT(rules.last_moment(v, rules.grant(h, TimePoint::max())), rules.gone_if_silent(h));
      for (const Duration left : {-timeout, -timeout / 8, Duration(0), timeout / 8, timeout, 3 * timeout}) {
        const TimePoint sure = h + left;  // nobody else can lead until then
        const TimePoint end = rules.last_moment(v, rules.grant(h, sure));
        EXPECT_LE(rules.grant(h, sure), timeout);
        if (rules.grant(h, sure) == Duration(0)) continue;
        // The one that both majorities share heard the leader at its stamp or later.
        EXPECT_LT(end, rules.gone_with_leader(sure - timeout));
        EXPECT_LT(end, rules.gone_if_elected(sure));
      }
    }
  }
  EXPECT_FALSE(LeaseRules(Duration(0)).exist());
}

}  // namespace
}  // namespace dlaunch::agent
