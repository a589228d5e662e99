// Which endpoint leads, and which nodes it counts.

#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;

TEST_F(CoordinatorTest, ProbeIsAnsweredWithoutSideEffects) {
  job_.endpoints = {{"m", 29500}, {"b", 29500}};
  const auto answer = [&](const std::string& job_id) {
    from(99, Ask{job_id});
    EXPECT_TRUE(did<DropMember>());
    return sent<Welcome>();
  };
  begin();
  ASSERT_EQ(answer("j").size(), 1U);
  EXPECT_FALSE(answer("j")[0].second.leads);
  EXPECT_FALSE(answer("j")[0].second.elsewhere);
  last_ = coordinator_->step(now_, FollowsAnother{true});
  EXPECT_TRUE(answer("j")[0].second.elsewhere);
  last_ = coordinator_->step(now_, FollowsAnother{false});
  from(0, join(0));
  EXPECT_FALSE(answer("j")[0].second.leads) << "who asks is no member";
  from(7, join(1));
  EXPECT_TRUE(answer("j")[0].second.leads);
  EXPECT_TRUE(sent<StopRound>().empty());
  EXPECT_TRUE(answer("another").empty());
  ASSERT_EQ(sent<Refused>().size(), 1U);
  from(7, Ask{"j"});
  EXPECT_TRUE(last_.empty() || !did<DropMember>()) << "a member has no reason to ask";
}

// It came before anybody led here, and goes on to the next endpoint; that its connection has ended is not
// heard of yet.
TEST_F(CoordinatorTest, NodesSilentSinceLeadershipBeganJoinNoWorld) {
  job_.nnodes = 3;
  job_.endpoints = {{"a", 1}, {"b", 1}, {"c", 1}};
  begin();
  const auto come = [this](MemberId member, int node_rank, bool stays) {
    Join join = this->join(node_rank);
    join.stays = stays;
    from(member, join);
  };
  const auto answer = [this](MemberId member) { from(member, Heartbeat{now_.time_since_epoch().count()}); };
  come(7, 2, false);
  EXPECT_FALSE(sent<Welcome>().at(0).second.leads);
  answer(7);  // to what was said before
  now_ += milliseconds(1);
  come(0, 0, true);
  come(8, 1, true);
  EXPECT_TRUE(sent<Welcome>().back().second.leads);
  answer(8);
  EXPECT_TRUE(sent<NewWorld>().empty());

  // It comes again by a connection of its own, and before the end of the old one is seen.
  come(9, 2, false);
  EXPECT_FALSE(did<CoordinatorEnded>());
  EXPECT_TRUE(sent<NewWorld>().empty());
  EXPECT_TRUE(sent<Refused>().empty());
  answer(9);
  EXPECT_EQ(sent<NewWorld>().size(), 3U);
}

// Of a world that this node, or one that is here, has led, nobody is missing.
TEST_F(CoordinatorTest, ALostLeaderIsOneThatIsNotHere) {
  job_.nnodes = 3;
  job_.endpoints = {{"a", 1}, {"b", 1}, {"c", 1}};
  const auto lost_after = [this](AgentId leader) {
    begin();
    std::vector<std::string> lost;
    for (const MemberId member : {7U, 8U}) {
      Join join = this->join(static_cast<int>(member) - 6);
      join.stays = join.joined_once = true;
      join.nodes = 3;
      join.leader = leader;
      join.leader_host = "old";
      from(member, join);
      for (const auto& action : last_) {
        const auto* event = std::get_if<Event>(&action);
        if (event && event->kind == EventKind::lost) lost.push_back(event->host + ": " + event->text);
      }
    }
    EXPECT_EQ(coordinator_->state(), Coordinator::State::gathering);
    return lost;
  };
  EXPECT_EQ(lost_after(555), std::vector<std::string>{"old: it was the leader"});
  EXPECT_EQ(lost_after(102), std::vector<std::string>{});
  EXPECT_EQ(lost_after(100), std::vector<std::string>{}) << "this node's own agent, which has not come yet";
}

}  // namespace
}  // namespace dlaunch::agent
