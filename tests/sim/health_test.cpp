// Health checks in the simulated world.

#include <gtest/gtest.h>

#include "tests/sim/elastic_job.h"

namespace dlaunch::sim {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

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

}  // namespace
}  // namespace dlaunch::sim
