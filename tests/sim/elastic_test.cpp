// Elastic jobs in the simulated world: nodes join late, leave, die and freeze.

#include <gtest/gtest.h>

#include "tests/sim/elastic_job.h"

namespace dlaunch::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

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
      steady(27, {.machines = nodes, .min_nodes = nodes - 8, .nnodes = nodes, .endpoints = 3}, minutes(1));
  job->start_all();
  job->run(seconds(20));
  ASSERT_EQ(job->running().size(), static_cast<std::size_t>(nodes));
  job->node(234).crash();
  job->run(seconds(10));
  EXPECT_EQ(job->running().size(), static_cast<std::size_t>(nodes - 1));
  job->node(0).crash();
  job->run(seconds(30));
  EXPECT_EQ(job->running().size(), static_cast<std::size_t>(nodes - 2)) << job->last_round().nodes;
  job->run(minutes(10));
  job->check_ended();
  EXPECT_EQ(job->exit_codes(), std::set<int>{0});
}

}  // namespace
}  // namespace dlaunch::sim
