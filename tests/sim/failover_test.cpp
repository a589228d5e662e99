// The coordinator's node dies, leaves, freezes or is cut off: another endpoint leads.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/sim/elastic_job.h"

namespace dlaunch::sim {
namespace {

using agent::Member;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(Failover, TheNextEndpointLeadsWhenTheFirstIsKilled) {
  const auto job = steady(20, {.machines = 5, .min_nodes = 3, .nnodes = 5, .endpoints = 3}, seconds(120));
  job->start_all();
  job->run(seconds(5));
  EXPECT_EQ(job->last_round().store, "node0");
  job->node(0).crash();
  job->run(seconds(5));
  EXPECT_EQ(job->running(), (std::set<int>{1, 2, 3, 4})) << job->what_was_said();
  EXPECT_EQ(job->last_round().store, "node1");
  job->node(1).vanish();
  job->run(seconds(20));
  EXPECT_EQ(job->running(), (std::set<int>{2, 3, 4})) << job->what_was_said();
  EXPECT_EQ(job->last_round().store, "node2");
  job->run(minutes(5));
  job->check_ended();
  EXPECT_EQ(job->node(4).outcome()->exit_code, 0);
}

// Whatever a node sends, and whenever its workers are gone: while it finds the next leader, or before.
TEST(Failover, TheNextLeaderComesAtOnceWheneverTheWorkersAreGone) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto job = steady(seed, {.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3}, minutes(2));
    job->cluster().swallowed = 0;
    job->start_all();
    job->run(seconds(5));
    ASSERT_EQ(job->last_round().store, "node0");
    job->node(0).crash();
    job->run(seconds(5));
    ASSERT_EQ(job->running(), (std::set<int>{1, 2, 3})) << job->what_was_said();
  }
}

TEST(Failover, EveryNodeInTurnMayDieAndComeBack) {
  const auto job = steady(21, {.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3}, minutes(10));
  job->start_all();
  job->run(seconds(5));
  for (int i = 0; i < 4; ++i) {
    job->node(i).crash();
    job->run(seconds(10));
    EXPECT_EQ(job->running().size(), 3U) << "without node " << i << "\n" << job->what_was_said();
    job->node(i).start();
    job->run(seconds(10));
    EXPECT_EQ(job->running().size(), 4U) << "node " << i << " is back\n" << job->what_was_said();
  }
  EXPECT_EQ(job->last_round().restart_count, "0");
}

// Of the world that it led a node is missing when the next leader comes, and that is not its own.
TEST(Failover, WorkersOfAMissingNodeAreWaitedForIfASpareLed) {
  const auto job = steady(
      30, {.machines = 5, .min_nodes = 3, .nnodes = 4, .spares = 1, .endpoints = 3, .health_check = "check"});
  job->cluster().script = [](int node, std::uint32_t round, int) {
    Script script = long_life();
    // The leader's own node comes last.
    if (round == agent::health_check.round) script.life = seconds(node == 0 ? 2 : 0);
    script.ignores_term = node == 4;
    return script;
  };
  job->start_all();
  job->run(seconds(8));
  ASSERT_EQ(job->last_round().store, "node0") << job->what_was_said();
  ASSERT_EQ(job->running(), (std::set<int>{1, 2, 3, 4})) << job->what_was_said();
  job->cluster().cut(4, 1);
  job->cluster().cut(4, 2);
  job->node(0).crash();
  job->run(seconds(15));  // no worker starts while one of node 4 runs: ElasticJob checks that
  EXPECT_EQ(job->running(), (std::set<int>{1, 2, 3})) << job->what_was_said();
  job->cluster().join_all();
  job->run(seconds(15));
  EXPECT_EQ(job->running(), (std::set<int>{1, 2, 3, 4})) << job->what_was_said();
}

TEST(Failover, StoppedLeaderHandsLeadershipOver) {
  const auto job = steady(22, {.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3}, seconds(60));
  job->start_all();
  job->run(seconds(5));
  job->node(0).signal(SIGTERM);
  job->run(seconds(10));
  EXPECT_EQ(job->running(), (std::set<int>{1, 2, 3})) << job->what_was_said();
  EXPECT_EQ(job->node(0).outcome()->exit_code, 143);
}

TEST(Failover, RestartsAreRememberedByTheNextLeader) {
  const auto job =
      steady(23, {.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3, .max_restarts = 2});
  job->cluster().script = [](int, std::uint32_t round, int) {
    Script script = long_life();
    if (round != 1) script = {seconds(2), 3};
    return script;
  };
  job->start_all();
  job->run(seconds(6));
  ASSERT_EQ(job->last_round().restart_count, "1");
  job->node(0).crash();
  job->run(minutes(1));
  job->check_ended();
  EXPECT_EQ(job->node(3).outcome()->exit_code, 3);
  EXPECT_EQ(job->node(3).outcome()->restarts_used, 2);
  const auto& restarts = job->node(3).outcome()->restarts;
  ASSERT_EQ(restarts.size(), 3U);
  EXPECT_EQ(restarts[1].cause.kind, agent::FailureKind::node_lost) << "that of the leader";
  EXPECT_EQ(restarts[1].cause.host, "node0");
  EXPECT_FALSE(restarts[1].counted);
}

TEST(Failover, ARestartIsRememberedThoughTheLeaderDiesBeforeIt) {
  Shape shape{.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3, .max_restarts = 3};
  shape.restart_backoff = seconds(20);
  const auto job = steady(23, shape);
  job->cluster().script = [](int, std::uint32_t round, int) {
    return round < 2 ? Script{seconds(2), 3} : long_life();
  };
  job->start_all();
  job->run(seconds(10));  // the second restart waits for its delay
  ASSERT_EQ(job->last_round().restart_count, "1");
  ASSERT_TRUE(job->running().empty());
  job->node(0).crash();
  job->run(minutes(1));
  EXPECT_EQ(job->last_round().restart_count, "2");
  EXPECT_EQ(job->running().size(), 3U);
}

TEST(Failover, ASignalToAllEndsTheJobOnAll) {
  for (const auto& [nodes, endpoints] : {std::pair{3, 3}, std::pair{5, 3}}) {
    const auto job =
        steady(28, {.machines = nodes, .min_nodes = nodes - 1, .nnodes = nodes, .endpoints = endpoints});
    job->start_all();
    job->run(seconds(10));
    const std::size_t rounds = job->rounds().size();
    for (int i = 0; i < nodes; ++i) job->node(i).signal(SIGTERM);
    job->run(seconds(40));
    job->check_ended();
    EXPECT_EQ(job->exit_codes(), std::set<int>{143});
    EXPECT_EQ(job->rounds().size(), rounds) << "nobody began anew";
  }
}

TEST(Failover, AFixedNumberOfNodesMeetsAtSeveralEndpoints) {
  const auto job = steady(
      29, {.machines = 3, .min_nodes = 3, .nnodes = 3, .endpoints = 3, .max_restarts = 0, .replaces = false},
      seconds(20));
  job->start_all();
  job->run(minutes(1));
  job->check_ended();
  EXPECT_EQ(job->rounds().size(), 1U);
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

TEST(Failover, RemainingMinorityWaitsAfterANodeLeaves) {
  const auto job = steady(31, {.machines = 3, .min_nodes = 2, .nnodes = 4, .endpoints = 3}, minutes(30));
  job->start_all();
  job->run(seconds(20));
  ASSERT_EQ(job->running().size(), 3U);
  job->node(2).signal(SIGTERM);
  job->run(seconds(30));
  EXPECT_EQ(job->node(2).outcome()->exit_code, 143);
  EXPECT_TRUE(job->node(0).answers() && job->node(1).answers());
  EXPECT_TRUE(job->running().empty());
  const auto& said = job->node(1).said();
  EXPECT_TRUE(std::any_of(said.begin(), said.end(), [](const std::string& line) {
    return line.find("waiting for a majority, 3 of 4 nodes, to join at one endpoint") != std::string::npos;
  }));
  job->node(2).start();
  job->run(seconds(30));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2}));
}

TEST(Failover, OfTwoHalvesOnlyTheMajorityGoesOn) {
  const auto job = steady(24, {.machines = 5, .min_nodes = 1, .nnodes = 5, .endpoints = 5}, minutes(3));
  job->start_all();
  job->run(seconds(5));
  // The leader and one other node are cut off from three.
  for (int one : {0, 1}) {
    for (int other : {2, 3, 4}) job->cluster().cut(one, other);
  }
  job->run(seconds(40));
  EXPECT_EQ(job->running(), (std::set<int>{2, 3, 4})) << job->what_was_said();
  EXPECT_EQ(job->node(0).processes() + job->node(1).processes(), 0U);
  job->cluster().join_all();
  job->run(seconds(20));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2, 3, 4})) << job->what_was_said();
  job->run(minutes(5));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

// For every moment of a cut, also a long one: the longer the search through dead endpoints took, the longer
// the node stays parked afterwards.
TEST(Failover, ANodeThatWasCutOffIsBackWithinItsBound) {
  constexpr int endpoints = 3;
  const Duration bound =
      ElasticJob::node_timeout + (endpoints - 1) * (Member::probe_timeout + Member::probe_pause);
  for (int lost = 0; lost < 4; ++lost) {
    for (int length = 1; length <= 80; length += 3) {
      SCOPED_TRACE("node " + std::to_string(lost) + ", cut off for " + std::to_string(length) + " s");
      const auto job = steady(26, {.machines = 5, .min_nodes = 3, .nnodes = 5, .endpoints = endpoints});
      job->start_all();
      job->run(seconds(5));
      for (int other = 0; other < 5; ++other) {
        if (other != lost) job->cluster().cut(lost, other);
      }
      job->run(seconds(length));
      job->cluster().join_all();
      job->run(bound);
      ASSERT_EQ(job->running(), (std::set<int>{0, 1, 2, 3, 4})) << job->what_was_said();
    }
  }
}

// Two nodes that are both needed, and an endpoint that never answers: none leads until both are together.
TEST(Failover, NodesThatAreAllNeededMeetWithinTheirBound) {
  constexpr int endpoints = 3;
  const Duration bound =
      ElasticJob::node_timeout + 2 * (endpoints - 1) * (Member::probe_timeout + Member::probe_pause);
  for (int dead = 0; dead < endpoints; ++dead) {
    for (int length = 1; length <= 80; length += 3) {
      SCOPED_TRACE("endpoint " + std::to_string(dead) + " is dead, the others were cut off for " +
                   std::to_string(length) + " s");
      const auto job = steady(27, {.machines = 3, .min_nodes = 1, .nnodes = 3, .endpoints = endpoints});
      std::set<int> rest{0, 1, 2};
      job->start_all();
      job->run(seconds(5));
      job->node(dead).vanish();
      rest.erase(dead);
      job->run(seconds(40));
      ASSERT_EQ(job->running(), rest) << job->what_was_said();
      job->cluster().cut(*rest.begin(), *rest.rbegin());
      job->run(seconds(length));
      job->cluster().join_all();
      job->run(bound);
      ASSERT_EQ(job->running(), rest) << job->what_was_said();
    }
  }
}

// The kernel of a frozen agent takes connections, and nobody answers with the proof.
TEST(Failover, AFrozenEndpointIsNotAwaitedForEverWithASecret) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto job = steady(seed, {.machines = 4, .min_nodes = 3, .nnodes = 4, .endpoints = 3}, minutes(3));
    job->cluster().secret = "a secret";
    job->node(0).start();
    job->run(seconds(1));
    job->node(0).pause();
    for (int i = 1; i < 4; ++i) job->node(i).start();
    job->run(seconds(40));
    ASSERT_EQ(job->running(), (std::set<int>{1, 2, 3})) << job->what_was_said();
    job->node(0).resume();
    job->run(seconds(20));
    ASSERT_EQ(job->running(), (std::set<int>{0, 1, 2, 3})) << job->what_was_said();
  }
}

TEST(Failover, AFrozenLeaderThatWakesUpDoesNoHarm) {
  const auto job = steady(25, {.machines = 5, .min_nodes = 3, .nnodes = 5, .endpoints = 3}, minutes(3));
  job->start_all();
  job->run(seconds(5));
  job->node(0).pause();
  job->run(seconds(40));
  EXPECT_EQ(job->running(), (std::set<int>{1, 2, 3, 4})) << job->what_was_said();
  job->node(0).resume();
  job->run(seconds(20));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2, 3, 4})) << job->what_was_said();
  job->run(minutes(5));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

}  // namespace
}  // namespace dlaunch::sim
