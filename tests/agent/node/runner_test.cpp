// The Runner carries events to the state machines and their decisions to the outside, here a simulated one.
#include "agent/node/runner.h"

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/world.h"

namespace dlaunch::agent {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class RunnerTest : public ::testing::Test {
 protected:
  RunnerTest() {
    job_.id = "job";
    job_.master = {"node0", 29500};
    job_.join_timeout = seconds(60);
    job_.stop_timeout.usual = seconds(10);
    cluster_.script = [this](int, std::uint32_t, int) { return script_; };
    cluster_.on_spawn = [this](int, const ProcKey& key, const Command& command) { started_[key] = command; };
    cluster_.on_end = [](int, const ProcKey&) {};
    cluster_.on_signal = [this](int, int signo) { passed_on_.push_back(signo); };
    cluster_.swallowed = 0;
  }
  // The agent of node `i`, with two workers.
  sim::Node& start(int i = 0) {
    NodeSpec node;
    node.node_rank = i;
    node.slots = 2;
    node.host = "node" + std::to_string(i);
    node.command = {"./train", "--fast"};
    nodes_.push_back(std::make_unique<sim::Node>(cluster_, i, job_, node,
                                                 i == 0 ? std::optional<std::size_t>(0) : std::nullopt));
    nodes_.back()->start();
    return *nodes_.back();
  }
  void run(Duration time) { world_.run(world_.now() + time); }
  [[nodiscard]] std::string variable(ProcKey worker, const std::string& name) const {
    for (const auto& [key, value] : started_.at(worker).environment) {
      if (key == name) return value;
    }
    return "";
  }

  sim::World world_{1};
  sim::Cluster cluster_{world_};
  JobSpec job_;
  sim::Script script_;
  std::map<ProcKey, Command> started_;
  std::vector<int> passed_on_;
  std::vector<std::unique_ptr<sim::Node>> nodes_;
};

TEST_F(RunnerTest, StartsTheWorkersOfItsNodeAndReturnsZeroAfterThem) {
  const sim::Node& node = start();
  run(seconds(5));
  ASSERT_EQ(started_.size(), 2U);
  EXPECT_EQ(started_.at({0, 1}).argv, (std::vector<std::string>{"./train", "--fast"}));
  EXPECT_EQ(variable({0, 1}, "RANK"), "1");
  EXPECT_EQ(variable({0, 1}, "WORLD_SIZE"), "2");
  EXPECT_EQ(node.runner()->status().state, "running");
  EXPECT_EQ(node.runner()->world().world_size, 2);
  run(minutes(1));
  ASSERT_TRUE(node.outcome());
  EXPECT_EQ(node.outcome()->exit_code, 0);
  EXPECT_FALSE(node.answers()) << "the owner was notified of the end";
}

TEST_F(RunnerTest, NodesOfOneJobFormOneWorld) {
  job_.nnodes = 2;
  start(0);
  const sim::Node& second = start(1);
  run(seconds(5));
  EXPECT_EQ(second.runner()->coordinator(), nullptr) << "it serves no endpoint";
  EXPECT_EQ(second.runner()->world().world_size, 4);
  EXPECT_EQ(second.runner()->status().node_rank, 1);
}

TEST_F(RunnerTest, AFailureRestartsTheWorkersAndThenEndsTheJob) {
  job_.max_restarts = 1;
  script_.exit_code = 3;
  const sim::Node& node = start();
  run(minutes(2));
  EXPECT_TRUE(started_.contains({1, 0})) << "the second round";
  ASSERT_TRUE(node.outcome());
  EXPECT_EQ(node.outcome()->exit_code, 3);
  EXPECT_EQ(node.outcome()->restarts_used, 1);
  EXPECT_EQ(node.outcome()->cause.kind, FailureKind::worker);
}

TEST_F(RunnerTest, AProgramThatCannotBeStartedEndsTheJob) {
  script_.cannot_start = true;
  const sim::Node& node = start();
  run(minutes(1));
  ASSERT_TRUE(node.outcome());
  EXPECT_EQ(node.outcome()->cause.kind, FailureKind::spawn);
  EXPECT_EQ(node.outcome()->exit_code, 1);
}

TEST_F(RunnerTest, ASignalThatDoesNotStopTheJobIsPassedOn) {
  script_.life = minutes(10);
  script_.ignores_term = true;
  sim::Node& node = start();
  run(seconds(5));
  node.signal(SIGUSR2);
  run(seconds(5));
  EXPECT_EQ(passed_on_, std::vector{SIGUSR2});
  EXPECT_FALSE(node.outcome());
}

TEST_F(RunnerTest, AStopSignalIsPassedOnAndEndsTheJob) {
  script_.life = minutes(10);
  sim::Node& node = start();
  run(seconds(5));
  node.signal(SIGTERM);
  run(minutes(1));
  ASSERT_FALSE(passed_on_.empty());
  EXPECT_EQ(passed_on_.front(), SIGTERM);
  ASSERT_TRUE(node.outcome());
  EXPECT_EQ(node.outcome()->exit_code, 128 + SIGTERM);
  EXPECT_EQ(node.processes(), 0U);
}

TEST_F(RunnerTest, ANodeWhoseCoordinatorIsNotThereGivesUp) {
  job_.nnodes = 2;
  const sim::Node& second = start(1);
  run(seconds(30));
  EXPECT_EQ(second.runner()->status().state, "waiting");
  EXPECT_NE(second.runner()->status().waiting_for.find("node 0 at node0:29500"), std::string::npos);
  run(minutes(2));
  ASSERT_TRUE(second.outcome());
  EXPECT_EQ(second.outcome()->cause.kind, FailureKind::join);
  EXPECT_TRUE(started_.empty());
}

}  // namespace
}  // namespace dlaunch::agent
