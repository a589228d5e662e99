#include "agent/control/fenced_hosts.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The hosts that the next round's store rejects: workers of an old round may still run there.
class FencedHostsTest : public CoordinatorTest {
 protected:
  FencedHostsTest() {
    job_.nnodes = 3;
    job_.min_nodes = 1;
    job_.node_timeout = seconds(5);
    begin();
    from(0, join(0));
    come(7, 1, "10.0.0.2");
    come(8, 2, "10.0.0.3");
    EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
  }
  void come(MemberId member, int node_rank, const std::string& address) {
    last_ = coordinator_->step(now_, FromMember{member, join(node_rank), address});
  }
  void on_node_lost(MemberId member) {
    last_ = coordinator_->step(now_, MemberLost{member, {LossKind::closed, "gone"}});
  }
  // From the store of the newest round; the others have stopped for it.
  std::set<std::string> blocked_hosts() {
    const std::uint32_t round = next_round_++;
    for (const MemberId member : {0U, 7U, 8U, 9U}) {
      if (const auto* open = opened()) return open->blocked_hosts;
      if (round > 0) from(member, Stopped{round - 1});
    }
    now_ += milliseconds(100);  // the keepers of agents that have ended act at once
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    const auto* open = opened();
    EXPECT_TRUE(open) << "round " << round;
    return open ? open->blocked_hosts : std::set<std::string>{"none was opened"};
  }

 private:
  const OpenStore* opened() const {
    for (const auto& action : last_) {
      if (const auto* open = std::get_if<OpenStore>(&action)) return open;
    }
    return nullptr;
  }
  std::uint32_t next_round_ = 0;
};

TEST_F(FencedHostsTest, AreShutOut) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
}

TEST_F(FencedHostsTest, AreLetInAgainWithTheirNode) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
  come(9, 1, "10.0.0.2");
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
}

TEST_F(FencedHostsTest, AreLiftedIfANodeOfThatHostIsPresent) {
  come(9, -1, "10.0.0.2");
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
}

TEST_F(FencedHostsTest, AreForgottenWhenNothingCanRunThereAnyMore) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
  now_ += seconds(22);
  on_node_lost(8);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.3"});
}

}  // namespace
}  // namespace dlaunch::agent
