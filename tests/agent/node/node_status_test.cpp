#include "agent/node/node_status.h"

#include <gtest/gtest.h>

#include "tests/agent/model/example_job.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class NodeStatusTest : public ::testing::Test {
 protected:
  NodeStatusTest() { job_.max_restarts = 3; }
  JobStatus status() const {
    return node_status({job_, node_, build_, world_, member_, group_, nullptr, seconds_after(0),
                        seconds_after(40), round_done_, seconds_after(100)});
  }
  static TimePoint seconds_after(int s) { return TimePoint(seconds(1000 + s)); }
  void step(const MemberEvent& event) { member_.step(seconds_after(50), event); }
  void step(const GroupEvent& event) { group_.step(seconds_after(50), event); }
  // This node is the second of the world; its ranks are 2 and 3.
  void begin_round() {
    world_.round = 4;
    world_.nodes = 2;
    world_.world_size = 4;
    world_.restarts_used = 1;
    world_.members = {{0, 2, 0, "a", 41, 0}, {1, 2, 2, "b", 42, 1}};
    step(LinkUp{});
    step(FromCoordinator{NewWorld{world_, {stamp_of(seconds_after(50)), seconds(5)}}});
    step(StartWorkers{world_});
  }

  JobSpec job_ = a_job();
  NodeSpec node_ = a_node();
  std::string build_ = "0.2";
  World world_;
  Member member_{a_job(), a_node(), "0.2", seconds_after(0)};
  WorkerGroup group_{a_node(), StopGrace{}};
  bool round_done_ = false;

 private:
  static JobSpec a_job() {
    JobSpec job = example_job();
    job.id = "train";
    job.node_timeout = Duration(0);
    return job;
  }
  static NodeSpec a_node() {
    NodeSpec node{1, 2, "b", "default", {"./train", "--lr=1"}};
    node.agent = 42;
    return node;
  }
};

TEST_F(NodeStatusTest, NodeWithoutConnectionWaitsForTheCoordinator) {
  member_.begin();
  const JobStatus now = status();
  EXPECT_EQ(now.job, "train");
  EXPECT_EQ(now.program, "./train --lr=1");
  EXPECT_EQ(now.version, "0.2");
  EXPECT_EQ(now.node_rank, 1);
  EXPECT_EQ(now.state, "waiting");
  EXPECT_EQ(now.waiting_for, "node 0 at m:29500");
  EXPECT_EQ(now.world_size, 0);
  EXPECT_EQ(now.max_restarts, 3);
  EXPECT_EQ(now.age_s, 100);
  EXPECT_EQ(now.state_age_s, 60);
  EXPECT_TRUE(now.workers.empty());

  job_.elected = true;
  EXPECT_EQ(status().waiting_for, "a leader, elected at etcd (m:29500)");
}

TEST_F(NodeStatusTest, JoinedNodeWaitsForTheOthersOrWhatTheNoticeNames) {
  member_.begin();
  step(LinkUp{});
  step(FromCoordinator{Welcome{}});
  EXPECT_EQ(status().state, "waiting");
  EXPECT_EQ(status().waiting_for, "the other nodes");
  step(FromCoordinator{Notice{"waiting for node 0"}});
  EXPECT_EQ(status().waiting_for, "node 0");
}

TEST_F(NodeStatusTest, WorkersOfARoundHaveTheirRanksAndStates) {
  member_.begin();
  begin_round();
  step(WorkerStarted{0, 500});
  const JobStatus now = status();
  EXPECT_EQ(now.state, "running");
  EXPECT_EQ(now.waiting_for, "");
  EXPECT_EQ(now.round, 4);
  EXPECT_EQ(now.world_size, 4);
  EXPECT_EQ(now.restarts_used, 1);
  EXPECT_EQ(now.workers, (std::vector<WorkerStatus>{{2, 0, 500, "running", ""}, {3, 1, 0, "starting", ""}}));
}

TEST_F(NodeStatusTest, NodeIsDoneOnceItsWorkersHaveReturnedZero) {
  member_.begin();
  begin_round();
  for (int i = 0; i < 2; ++i) step(WorkerStarted{i, 500 + i});
  WorkerExit exit;
  exit.status = {ExitStatus::How::exited, 0, false};
  for (int i = 0; i < 2; ++i) step(WorkerExited{i, 500 + i, exit});
  step(AllGone{});
  EXPECT_EQ(status().state, "waiting");
  round_done_ = true;
  EXPECT_EQ(status().state, "done");
}

}  // namespace
}  // namespace dlaunch::agent
