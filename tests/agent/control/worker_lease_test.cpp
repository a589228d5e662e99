// Until when a member's workers may run.
#include "agent/control/worker_lease.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class WorkerLeaseTest : public ::testing::Test {
 protected:
  Grant grant(Duration lease) const { return {now_.time_since_epoch().count(), lease}; }

  static constexpr Duration timeout = seconds(8);
  TimePoint now_{seconds(100)};
  LeaseRules rules_{timeout};
  WorkerLease lease_{timeout, now_};
};

TEST_F(WorkerLeaseTest, GrantCountsFromItsEcho) {
  EXPECT_FALSE(lease_.is_granted(now_));
  EXPECT_TRUE(lease_.take(now_ + seconds(3), grant(seconds(5)), true));
  EXPECT_TRUE(lease_.is_granted(now_ + seconds(4)));
  EXPECT_FALSE(lease_.is_granted(now_ + seconds(5)));
  EXPECT_EQ(lease_.last_moment(), rules_.last_moment(now_ + seconds(5), Duration(0)));
}

TEST_F(WorkerLeaseTest, HostileGrantIsBounded) {
  EXPECT_FALSE(lease_.take(now_ - seconds(1), grant(seconds(5)), true)) << "its echo is of the future";
  EXPECT_TRUE(lease_.take(now_, grant(seconds(1'000'000)), true));
  EXPECT_FALSE(lease_.is_granted(now_ + timeout));
  EXPECT_TRUE(lease_.take(now_, grant(-seconds(5)), true));
  EXPECT_FALSE(lease_.is_granted(now_));
}

TEST_F(WorkerLeaseTest, AgentThatCameTooLateKnowsIt) {
  lease_.take(now_, grant(timeout), true);
  lease_.look(lease_.last_moment() - Duration(1));
  EXPECT_FALSE(lease_.is_over());
  lease_.look(lease_.last_moment());
  EXPECT_TRUE(lease_.is_over());
  lease_.take(now_ + seconds(20), grant(timeout), true);
  EXPECT_TRUE(lease_.is_over()) << "the workers were killed already";
  lease_.begin_round();
  EXPECT_FALSE(lease_.is_over());
}

TEST_F(WorkerLeaseTest, WithoutALeaderWorkersRunUntilTheirGrantEnds) {
  lease_.take(now_, grant(seconds(5)), true);
  lease_.on_leader_lost(now_ + seconds(1), true, now_, true);
  EXPECT_EQ(lease_.fence_at(), now_ + seconds(5));
  EXPECT_FALSE(lease_.take(now_ + seconds(2), grant(timeout), true)) << "that is for the next world";
  EXPECT_FALSE(lease_.take_fence(now_ + seconds(4)));
  EXPECT_TRUE(lease_.take_fence(now_ + seconds(5)));
  EXPECT_FALSE(lease_.take_fence(now_ + seconds(6)));
}

TEST_F(WorkerLeaseTest, SilentLeaderMayGoOnToLead) {
  lease_.on_leader_lost(now_ + seconds(9), true, now_ + seconds(1), false);
  const Duration left = rules_.gone_with_leader(now_ + seconds(1)) - now_;
  EXPECT_EQ(lease_.left_on_leader(now_), left);
  EXPECT_EQ(lease_.left_on_others(now_), left);
  EXPECT_FALSE(lease_.fence_at()) << "no worker runs";
  EXPECT_EQ(lease_.left_on_leader(now_ + seconds(100)), Duration(0));
}

TEST_F(WorkerLeaseTest, ClosedLeaderHasEnded) {
  lease_.on_leader_lost(now_, false, now_ - seconds(1), false);
  EXPECT_EQ(lease_.left_on_leader(now_), rules_.gone_if_closed(now_) - now_);
  EXPECT_EQ(lease_.left_on_others(now_), rules_.gone_if_silent(now_) - now_);
}

TEST_F(WorkerLeaseTest, LeaderThatStepsDownLeavesNothingBehind) {
  lease_.on_leader_stepped_down(now_);
  EXPECT_EQ(lease_.left_on_leader(now_), Duration(0));
  EXPECT_EQ(lease_.left_on_others(now_), rules_.gone_if_silent(now_) - now_);
}

TEST_F(WorkerLeaseTest, WithoutNodeTimeoutThereIsNoLease) {
  WorkerLease none(Duration(0), now_);
  EXPECT_FALSE(none.exists());
  EXPECT_TRUE(none.is_granted(now_));
  EXPECT_FALSE(none.take(now_, grant(seconds(5)), true));
  none.look(now_ + seconds(1000));
  EXPECT_FALSE(none.is_over());
  none.on_leader_lost(now_, true, now_, true);
  EXPECT_FALSE(none.fence_at());
  EXPECT_EQ(none.left_on_others(now_), Duration(0));
}

}  // namespace
}  // namespace dlaunch::agent
