// Elastic jobs in the simulated world: nodes join late, leave, die, freeze and are cut off, and so does the
// coordinator.

#include "tests/sim/elastic_job.h"

#include <algorithm>
#include <cstdlib>

namespace dlaunch::sim {
namespace {

using agent::Member;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

Script long_life(Duration life = minutes(10)) {
  Script script;
  script.life = life;
  return script;
}

// Workers run for long; the test decides what happens to them.
std::unique_ptr<ElasticJob> steady(std::uint64_t seed, Shape shape, Duration life = minutes(10)) {
  auto job = std::make_unique<ElasticJob>(seed, shape);
  job->cluster().swallowed = 0;
  job->cluster().script = [life](int, std::uint32_t, int) { return long_life(life); };
  return job;
}

TEST(Elastic, TheWorldBeginsAtOnceWhenAllAreThere) {
  const auto job = steady(1, {.machines = 4, .min_nodes = 2, .nnodes = 4});
  job->start_all();
  job->run(seconds(1));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2, 3}));
}

TEST(Elastic, EnoughNodesWaitOnlyForTheLastCall) {
  Shape shape{.machines = 4, .min_nodes = 2, .nnodes = 4};
  shape.last_call = seconds(10);
  const auto job = steady(1, shape);
  for (int i = 0; i < 3; ++i) job->node(i).start();
  job->run(seconds(9));
  EXPECT_TRUE(job->rounds().empty());
  job->run(seconds(2));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2}));
}

TEST(Elastic, ALateNodeIsTakenInAndThoseThatStayKeepTheirOrder) {
  const auto job = steady(2, {.machines = 4, .min_nodes = 2, .nnodes = 4});
  for (int i = 0; i < 3; ++i) job->node(i).start();
  job->run(seconds(10));
  const auto before = job->last_round().group_rank;
  job->node(3).start();
  job->run(seconds(2));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2, 3}));
  auto after = job->last_round().group_rank;
  EXPECT_EQ(after.at(3), 3);
  after.erase(3);
  EXPECT_EQ(after, before);
  EXPECT_EQ(job->last_round().restart_count, "0") << "to come is no failure";
}

TEST(Elastic, ADeadNodeIsGoneWithoutAndTheOthersMoveUp) {
  const auto job = steady(3, {.machines = 4, .min_nodes = 2, .nnodes = 4, .max_restarts = 0});
  job->start_all();
  job->run(seconds(1));
  const int dead = job->last_round().ranks.at(1);
  ASSERT_NE(dead, 0) << "the coordinator's";
  job->node(dead).crash();
  job->run(seconds(1));
  EXPECT_EQ(job->running().size(), 3U);
  EXPECT_FALSE(job->running().contains(dead));
  EXPECT_EQ(job->last_round().world_size, 3);
}

TEST(Elastic, ASilentNodeIsLostWithinTheTimeout) {
  const auto job = steady(4, {.machines = 4, .min_nodes = 2, .nnodes = 4});
  job->start_all();
  job->run(seconds(1));
  job->node(2).vanish();
  job->run(ElasticJob::node_timeout - seconds(1));
  EXPECT_EQ(job->rounds().size(), 1U);
  job->run(seconds(3));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 3}));
}

TEST(Elastic, BelowTheMinimumTheOthersWaitForAReplacement) {
  const auto job = steady(5, {.machines = 4, .min_nodes = 3, .nnodes = 3}, seconds(60));
  for (int i = 0; i < 3; ++i) job->node(i).start();
  job->run(seconds(1));
  job->node(1).crash();
  job->run(seconds(20));
  EXPECT_TRUE(job->running().empty());
  job->node(3).start();
  job->run(seconds(1));
  EXPECT_EQ(job->running(), (std::set<int>{0, 2, 3}));
  job->run(minutes(5));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

TEST(Elastic, JobEndsAtDeadlineWithoutReplacement) {
  const auto job = steady(6, {.machines = 3, .min_nodes = 3, .nnodes = 3});
  job->start_all();
  job->run(seconds(1));
  job->node(1).crash();
  job->run(ElasticJob::join_timeout + seconds(40));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{1});
  EXPECT_NE(job->node(2).outcome()->cause.why.find("1 more node of 3"), std::string::npos)
      << job->node(2).outcome()->cause.why;
}

TEST(Elastic, ASpareTakesADeadNodesRanks) {
  const auto job = steady(7, {.machines = 4, .min_nodes = 3, .nnodes = 3, .spares = 1});
  for (int i = 0; i < 3; ++i) job->node(i).start();
  job->run(seconds(2));
  job->node(3).start();
  job->run(seconds(10));
  EXPECT_EQ(job->rounds().size(), 1U) << "a spare only waits";
  const auto before = job->last_round().group_rank;
  job->node(1).crash();
  job->run(seconds(1));
  auto expected = before;
  expected[3] = expected.at(1);
  expected.erase(1);
  EXPECT_EQ(job->last_round().group_rank, expected);
}

TEST(Elastic, ASpareEndsWithTheJob) {
  const auto job = steady(8, {.machines = 4, .min_nodes = 3, .nnodes = 3, .spares = 1}, seconds(30));
  job->start_all();
  job->run(minutes(2));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

TEST(Elastic, StoppedNodeLeavesAlone) {
  const auto job = steady(9, {.machines = 4, .min_nodes = 2, .nnodes = 4}, seconds(60));
  job->start_all();
  job->run(seconds(1));
  job->node(2).signal(SIGTERM);
  job->run(seconds(5));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 3}));
  EXPECT_EQ(job->node(2).outcome()->exit_code, 143);
  EXPECT_EQ(job->last_round().restart_count, "0");
  job->run(minutes(3));
  job->check_ended();
  EXPECT_EQ(job->node(0).outcome()->exit_code, 0);
}

TEST(Elastic, SignalEndsJobOfFixedSize) {
  const auto job = steady(10, {.machines = 3, .min_nodes = 3, .nnodes = 3});
  job->start_all();
  job->run(seconds(1));
  job->node(2).signal(SIGTERM);
  job->run(seconds(20));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{143});
}

TEST(Elastic, OneNodeMayBeDoneLongBeforeTheOthers) {
  const auto job = std::make_unique<ElasticJob>(11, Shape{.machines = 3, .min_nodes = 2, .nnodes = 3});
  job->cluster().script = [](int node, std::uint32_t, int) {
    return long_life(node == 1 ? Duration(seconds(5)) : Duration(std::chrono::hours(3)));
  };
  job->start_all();
  job->run(std::chrono::hours(1));
  EXPECT_EQ(job->running(), (std::set<int>{0, 2}));
  job->run(std::chrono::hours(3));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

TEST(Elastic, FailuresCountAndMembershipDoesNot) {
  const auto job = steady(12, {.machines = 4, .min_nodes = 2, .nnodes = 4, .max_restarts = 1});
  job->cluster().script = [](int, std::uint32_t round, int) {
    Script script = long_life();
    if (round == 1) script = {seconds(1), 3};
    return script;
  };
  job->start_all();
  job->run(seconds(1));
  job->node(3).crash();
  job->run(seconds(10));
  ASSERT_EQ(job->rounds().size(), 3U);
  EXPECT_EQ(job->rounds().at(1).restart_count, "0");
  EXPECT_EQ(job->rounds().at(2).restart_count, "1");
}

TEST(Elastic, WithTheSwitchMembershipCountsToo) {
  const auto job =
      steady(13, {.machines = 4, .min_nodes = 2, .nnodes = 4, .max_restarts = 1, .counts_membership = true});
  job->start_all();
  job->run(seconds(1));
  job->node(3).crash();
  job->run(seconds(5));
  EXPECT_EQ(job->last_round().restart_count, "1");
  job->node(2).crash();
  job->run(seconds(30));
  job->check_ended();
  EXPECT_EQ(job->node(1).outcome()->cause.kind, agent::FailureKind::node_lost);
}

// --- the coordinator is lost ---

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

// The node that serves the endpoint cannot take part, or is stopped before it could report it.
TEST(Health, AnUnwellNodeThatServesEndsTheJob) {
  for (const bool alone : {true, false}) {
    Shape shape{.machines = alone ? 1 : 2, .min_nodes = 1, .nnodes = alone ? 1 : 2};
    shape.health_check = "./check";
    const auto job = steady(32, shape);
    job->cluster().script = [](int node, std::uint32_t, int) {
      return node == 0 ? Script{seconds(1), 3} : long_life();
    };
    job->start_all();
    job->run(seconds(30));
    ASSERT_TRUE(job->node(0).outcome());
    EXPECT_EQ(job->node(0).outcome()->cause.kind, agent::FailureKind::health);
    EXPECT_EQ(job->node(0).outcome()->exit_code, 1);
  }
}

TEST(Health, ASignalDuringTheFirstCheckEndsTheAgent) {
  Shape shape{.machines = 1, .min_nodes = 1, .nnodes = 1};
  shape.health_check = "./check";
  const auto job = steady(33, shape);
  job->cluster().script = [](int, std::uint32_t, int) { return Script{minutes(10), 0}; };
  job->start_all();
  job->run(seconds(1));
  job->node(0).signal(SIGTERM);
  job->run(seconds(30));
  ASSERT_TRUE(job->node(0).outcome());
  EXPECT_EQ(job->node(0).outcome()->exit_code, 143);
}

// A check between two rounds may take longer than a node may be silent.
TEST(Health, ALongCheckIsNotKilled) {
  Shape shape{.machines = 1, .min_nodes = 1, .nnodes = 1, .max_restarts = 1};
  shape.health_check = "./check";
  const auto job = steady(34, shape);
  int checks = 0;
  job->cluster().script = [&checks](int, std::uint32_t round, int) {
    if (round == agent::health_check.round)
      return ++checks == 1 ? Script{seconds(1), 0} : Script{seconds(12), 0};
    return round == 0 ? Script{seconds(2), 3} : Script{seconds(2), 0};
  };
  job->start_all();
  job->run(minutes(1));
  job->check_ended();
  EXPECT_EQ(checks, 2);
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
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

TEST(Elastic, AFrozenNodesWorkersEndBeforeTheOthersGoOnForLong) {
  const auto job = steady(26, {.machines = 3, .min_nodes = 2, .nnodes = 3}, minutes(3));
  job->start_all();
  job->run(seconds(5));
  job->node(2).pause();
  job->run(seconds(7));
  EXPECT_EQ(job->node(2).processes(), 0U);
  EXPECT_EQ(job->running(), (std::set<int>{0, 1}));
  job->node(2).resume();
  job->run(seconds(5));
  EXPECT_EQ(job->running(), (std::set<int>{0, 1, 2})) << job->what_was_said();
}

TEST(Elastic, FourThousandNodesFormAWorldAndLoseOne) {
  constexpr int nodes = 4096 / slowness;
  const auto job =
      steady(27, {.machines = nodes, .min_nodes = nodes - 8, .nnodes = nodes, .endpoints = 3}, minutes(2));
  job->start_all();
  job->run(seconds(30));
  ASSERT_EQ(job->running().size(), static_cast<std::size_t>(nodes));
  job->node(234).crash();
  job->run(seconds(20));
  EXPECT_EQ(job->running().size(), static_cast<std::size_t>(nodes - 1));
  job->node(0).crash();
  job->run(seconds(30));
  EXPECT_EQ(job->running().size(), static_cast<std::size_t>(nodes - 2)) << job->last_round().nodes;
  job->run(minutes(10));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

// --- whatever comes ---

Shape draw_shape(std::mt19937_64& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  Shape shape;
  // Few nodes find more faults; sometimes there are many.
  shape.nnodes = random() % 20 == 0 ? draw(9, 64) : draw(1, 8);
  shape.min_nodes = draw(1, shape.nnodes);
  shape.spares = random() % 3 == 0 ? draw(1, 3) : 0;
  shape.machines = std::min(64, shape.nnodes + shape.spares);
  shape.endpoints = random() % 2 == 0 ? 1 : std::min(shape.machines, draw(1, 5));
  // A majority counts all agents that may take part: with more agents than that there cannot be several
  // endpoints.
  if (shape.endpoints == 1 && random() % 4 == 0) shape.machines += draw(1, 2);
  shape.slots = draw(1, 2);
  shape.roles = draw(1, 3);
  shape.notice = random() % 2 == 0;
  shape.max_restarts = draw(0, 6);
  shape.counts_membership = random() % 8 == 0;
  return shape;
}

// Faults that a job survives: dead nodes come back, frozen nodes wake up, and cuts end.
void inflict_passing_faults(ElasticJob& job, Duration period) {
  World& world = job.world();
  const TimePoint calm = world.now() + period;
  const auto some_node = [&] { return static_cast<int>(world.draw(0, job.machines() - 1)); };
  const auto some_time = [&] { return world.now() + world.delay(Duration(0), period); };
  const auto some_while = [&] { return world.delay(milliseconds(100), seconds(20)); };
  const auto often = [&](double probability, int most, const auto& fault) {
    if (!world.chance(probability)) return;
    for (std::int64_t n = world.draw(1, most); n > 0; --n) fault();
  };
  often(0.5, 3, [&] {
    const int i = some_node();
    const bool silently = world.chance(0.4);
    const TimePoint when = some_time();
    world.at(when, [&job, i, silently] { silently ? job.node(i).vanish() : job.node(i).crash(); });
    world.at(std::min(when + some_while(), calm), [&job, i] { job.node(i).start(); });
  });
  often(0.3, 2, [&] {
    const int i = some_node();
    const TimePoint when = some_time();
    world.at(when, [&job, i] { job.node(i).pause(); });
    world.at(std::min(when + some_while(), calm), [&job, i] { job.node(i).resume(); });
  });
  often(0.3, 2, [&] {
    std::set<int> side;
    for (int i = 0; i < job.machines(); ++i) {
      if (world.chance(0.5)) side.insert(i);
    }
    const TimePoint when = some_time();
    world.at(when, [&job, side] {
      for (int one = 0; one < job.machines(); ++one) {
        for (int other = 0; other < one; ++other) {
          if (side.contains(one) != side.contains(other)) job.cluster().cut(one, other);
        }
      }
    });
    world.at(when + some_while(), [&job] { job.cluster().join_all(); });
  });
  often(0.2, 3, [&] {
    world.at(some_time(), [&job, one = some_node(), other = some_node()] { job.cluster().cut(one, other); });
  });
  world.at(calm, [&job] { job.cluster().join_all(); });
}

void inflict_more(ElasticJob& job, Duration period) {
  World& world = job.world();
  const auto sometimes = [&](double probability, const auto& fault) {
    if (!world.chance(probability)) return;
    const int i = static_cast<int>(world.draw(0, job.machines() - 1));
    world.at(world.now() + world.delay(Duration(0), period), [&job, i, fault] { fault(job.node(i)); });
  };
  sometimes(0.3, [](Node& node) { node.crash(); });  // for ever, unless it is started for another reason
  sometimes(0.1, [](Node& node) { node.vanish(); });
  sometimes(0.2, [](Node& node) { node.signal(SIGTERM); });
  sometimes(0.1, [](Node& node) { node.signal(SIGTERM); });
  sometimes(0.05, [](Node& node) { node.kill_keeper(); });
}

struct Met {
  std::set<int> codes;
  std::size_t rounds = 0;
  std::size_t moved = 0;  // rounds whose store is on another node than the previous one's
  std::size_t grown = 0;
  std::size_t shrunk = 0;
  std::size_t notices = 0;
};

void play(std::uint64_t seed, ElasticJob& job, Met& met) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ": replay with DLAUNCH_SIM_SEED=" + std::to_string(seed));
  World& world = job.world();
  const Duration faults = seconds(90);
  const double failure_rate = world.chance(0.5) ? 0.02 * static_cast<double>(world.draw(1, 10)) : 0;
  const bool stubborn = world.chance(0.2);
  const TimePoint calm = world.now() + faults;
  job.cluster().script = [&world, failure_rate, stubborn, calm](int, std::uint32_t, int) {
    Script script;
    script.life = world.delay(seconds(1), seconds(120));
    if (world.now() < calm && world.chance(failure_rate)) {
      script.exit_code = static_cast<int>(world.draw(1, 255));
      script.life = world.delay(milliseconds(1), seconds(30));
    }
    script.ignores_term = stubborn && world.chance(0.3);
    return script;
  };
  for (int i = 0; i < job.machines(); ++i)
    world.at(world.now() + world.delay(Duration(0), seconds(20)), [&job, i] { job.node(i).start(); });
  inflict_passing_faults(job, faults);
  inflict_more(job, faults);
  // Until the faults end, and then as long as a job without faults may take.
  job.run(faults + minutes(20));
  job.check_ended();
  const ElasticJob::Round* before = nullptr;
  for (const ElasticJob::Round& round : job.rounds()) {
    if (round.ranks.empty()) continue;  // all nodes were lost before it began
    if (before) {
      met.moved += before->store != round.store ? 1 : 0;
      met.grown += before->nodes < round.nodes ? 1 : 0;
      met.shrunk += before->nodes > round.nodes ? 1 : 0;
    }
    before = &round;
  }
  met.rounds += job.rounds().size();
  met.notices += job.notices();
  const auto codes = job.exit_codes();
  met.codes.insert(codes.begin(), codes.end());
}

// The seeds to run: `count`, unless the environment selects a failed one, or many.
std::pair<std::uint64_t, std::uint64_t> seeds(std::uint64_t count) {
  std::uint64_t first = 1;
  count /= static_cast<std::uint64_t>(slowness);
  if (const char* seed = std::getenv("DLAUNCH_SIM_SEED")) {  // NOLINT(concurrency-mt-unsafe): one thread
    first = std::strtoull(seed, nullptr, 10);
    count = 1;
  }
  if (const char* many = std::getenv("DLAUNCH_SIM_COUNT"))  // NOLINT(concurrency-mt-unsafe): one thread
    count = std::strtoull(many, nullptr, 10);
  return {first, count};
}

// Leaders are frozen and cut off; clocks differ by hours, and no agent forgets its tokens.
TEST(ElasticSwarm, FencingTokensGrowDespiteClockSkew) {
  const auto [first, count] = seeds(300);
  std::size_t rounds = 0;
  std::size_t moved = 0;
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": replay with DLAUNCH_SIM_SEED=" + std::to_string(seed));
    const auto job = steady(
        seed, {.machines = 5, .min_nodes = 2, .nnodes = 5, .endpoints = 3 + static_cast<int>(seed % 3)},
        minutes(5));
    job->cluster().clock_error = [](int node) { return std::chrono::hours(node % 2 == 0 ? 11 - node : -11); };
    World& world = job->world();
    job->start_all();
    for (int fault = 0; fault < 6; ++fault) {
      const TimePoint when = world.now() + world.delay(seconds(2), minutes(4));
      const int one = static_cast<int>(world.draw(0, 4));
      const int other = static_cast<int>(world.draw(0, 4));
      world.at(when, [&job, one, other] {
        if (one == other) return job->node(one).pause();
        for (int i = 0; i < job->machines(); ++i) {
          if (i != one && i != other) job->cluster().cut(one, i);
        }
      });
      world.at(when + world.delay(seconds(1), seconds(30)), [&job, one] {
        job->node(one).resume();
        job->cluster().join_all();
      });
    }
    job->run(minutes(30));
    job->check_ended();
    for (std::size_t i = 1; i < job->rounds().size(); ++i)
      moved += job->rounds()[i].store != job->rounds()[i - 1].store ? 1 : 0;
    rounds += job->rounds().size();
  }
  if (count > 20) {
    EXPECT_GT(rounds, 2 * count);
    EXPECT_GT(moved, count / 4);
  }
}

TEST(ElasticSwarm, RandomJobsKeepTheInvariants) {
  const auto [first, count] = seeds(10'000);
  Met met;
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    std::mt19937_64 random(seed);
    ElasticJob job(seed, draw_shape(random));
    play(seed, job, met);
  }
  if (count < 1000) return;
  // The swarm must have met all its faults, or it tests less than it promises.
  EXPECT_TRUE(met.codes.contains(0) && met.codes.contains(1) && met.codes.contains(143));
  EXPECT_GT(met.rounds, 2 * count);
  EXPECT_GT(met.moved, count / 20);
  EXPECT_GT(met.grown, count / 10);
  EXPECT_GT(met.shrunk, count / 10);
  EXPECT_GT(met.notices, count / 20);
}

// Nothing is lost for ever, and no worker fails: then the job completes on every node.
TEST(ElasticSwarm, OnceFaultsCeaseTheJobIsDone) {
  const auto [first, count] = seeds(2'000);
  constexpr Duration faults = seconds(90);
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": replay with DLAUNCH_SIM_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    Shape shape = draw_shape(random);
    shape.counts_membership = false;
    ElasticJob job(seed, shape);
    World& world = job.world();
    job.cluster().script = [&world](int, std::uint32_t, int) {
      return long_life(world.delay(seconds(100), seconds(120)));
    };
    for (int i = 0; i < job.machines(); ++i)
      world.at(world.now() + world.delay(Duration(0), seconds(20)), [&job, i] { job.node(i).start(); });
    inflict_passing_faults(job, faults);
    job.run(faults + minutes(20));
    job.check_ended();
    EXPECT_EQ(job.exit_codes(), std::set<int>{0}) << job.what_was_said();
  }
}

TEST(ElasticSwarm, OneSeedIsOneHistory) {
  for (std::uint64_t seed = 100; seed < 120; ++seed) {
    std::uint64_t resources[2]{};
    for (std::uint64_t& trace : resources) {
      std::mt19937_64 random(seed);
      ElasticJob job(seed, draw_shape(random));
      Met met;
      play(seed, job, met);
      trace = job.trace();
    }
    EXPECT_EQ(resources[0], resources[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace dlaunch::sim
