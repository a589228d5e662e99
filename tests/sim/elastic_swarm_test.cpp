// Thousands of random elastic jobs: what fails is drawn from a seed, and the invariants hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "tests/sim/elastic_job.h"

namespace dlaunch::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

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
  // Sanitizers look for other faults than these rules, in any of the jobs.
  if (slowness > 1) count /= 30;
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
  const auto [first, count] = seeds(5'000);
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
