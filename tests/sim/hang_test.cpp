// Workers that wait for each other for ever, in the simulated world: what counts as a hang, and what follows.

#include "tests/sim/elastic_job.h"

namespace dlaunch::sim {
namespace {

using agent::GroupProgress;
using agent::RankProgress;
using agent::WorkersSeen;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration limit = seconds(20);

// Three nodes with one worker each and a collective every second. `until` is the end of the last one, in a
// round that begins at `began`; from then on all workers but `absent` wait in the next.
class Training {
 public:
  explicit Training(std::uint64_t seed, Duration hang_timeout = limit, int max_restarts = 3,
                    Duration hang_note = {})
      : job_(seed, {.machines = 3,
                    .min_nodes = 3,
                    .nnodes = 3,
                    .max_restarts = max_restarts,
                    .hang_timeout = hang_timeout,
                    .hang_note = hang_note}) {
    job_.cluster().swallowed = 0;
    job_.cluster().script = [this](int, std::uint32_t, int) {
      Script script;
      script.life = life;
      return script;
    };
    job_.cluster().records = [this](int node, std::uint32_t round) { return seen(node, round); };
  }

  ElasticJob& job() { return job_; }
  std::function<std::optional<Duration>(std::uint32_t round)> stuck_after = [](std::uint32_t) {
    return std::nullopt;
  };
  int absent = 1;
  bool waits = true;  // the others are inside the next collective, and do not compute
  // How far the device of a rank is, with the collective that it waits in.
  std::function<page::Record::OnDevice(int rank)> device = [](int) { return page::Record::not_known; };
  Duration life = minutes(10);

 private:
  WorkersSeen seen(int node, std::uint32_t round) {
    const TimePoint began = job_.rounds()[round].began;
    const Duration age = job_.world().now() - began;
    const auto stop = stuck_after(round);
    const bool stuck = stop && age > *stop;
    const auto steps = static_cast<std::uint64_t>((stuck ? *stop : age) / seconds(1));
    RankProgress progress;
    progress.rank = job_.rounds()[round].group_rank.at(node);
    progress.entered = progress.done = steps;
    if (stuck && waits && progress.rank != absent) {
      ++progress.entered;
      progress.inside = true;
      progress.operation = page::Operation::all_reduce;
      progress.waited = age - *stop;
      progress.on_device = device(progress.rank);
    }
    return {{2 * steps + (progress.inside ? 1 : 0), progress.inside ? 1U : 0U},
            std::vector<GroupProgress>{{7, "default", 3, {{0, 1, 3}}, {progress}}}};
  }

  ElasticJob job_;
};

std::string everything_said(ElasticJob& job) {
  std::string all;
  for (const std::string& line : job.node(0).said()) all += line + "\n";
  return all;
}

TEST(Hang, IsDetectedAfterTheLimitAndTheJobRestarts) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Training training(seed);
    ElasticJob& job = training.job();
    training.stuck_after = [](std::uint32_t round) {
      return round == 0 ? std::optional<Duration>(seconds(30)) : std::nullopt;
    };
    training.life = minutes(2);
    job.start_all();
    job.run(seconds(30) + limit - seconds(2));
    EXPECT_EQ(job.rounds().size(), 1U) << "seed " << seed;
    job.run(seconds(10));
    ASSERT_EQ(job.rounds().size(), 2U) << "seed " << seed << "\n" << everything_said(job);
    EXPECT_EQ(job.last_round().restart_count, "1");
    const std::string said = everything_said(job);
    for (const char* part :
         {"nothing has moved for 20 s (--hang-timeout): rank 1 (local rank 0, node 1, host node",
          ") never entered all_reduce #31 of group default; the other 2 have waited "})
      EXPECT_NE(said.find(part), std::string::npos) << said;
    job.run(minutes(5));
    job.check_ended();
    EXPECT_EQ(job.exit_codes(), std::set<int>{0}) << "seed " << seed << "\n" << everything_said(job);
  }
}

TEST(Hang, WithoutARestartItEndsTheJob) {
  Training training(1, limit, 0);
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(5)); };
  training.job().start_all();
  training.job().run(minutes(2));
  training.job().check_ended();
  EXPECT_EQ(training.job().exit_codes(), std::set<int>{1});
  const agent::Outcome& outcome = *training.job().node(2).outcome();
  EXPECT_EQ(outcome.cause.kind, agent::FailureKind::hang);
  EXPECT_EQ(outcome.cause.rank, 1);
  EXPECT_FALSE(outcome.rank_positions.empty());
}

TEST(Hang, EachOneUsesUpARestart) {
  Training training(1, limit, 2);
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(5)); };
  training.job().start_all();
  training.job().run(minutes(5));
  training.job().check_ended();
  EXPECT_EQ(training.job().rounds().size(), 3U);
  EXPECT_EQ(training.job().exit_codes(), std::set<int>{1});
}

TEST(Hang, AProgramThatComputesForLongBetweenItsCollectivesDoesNot) {
  Training training(1);
  training.waits = false;
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(5)); };
  training.life = minutes(5);
  training.job().start_all();
  training.job().run(minutes(6));
  training.job().check_ended();
  EXPECT_EQ(training.job().rounds().size(), 1U);
  EXPECT_EQ(training.job().exit_codes(), std::set<int>{0});
}

TEST(Hang, WithoutTheOptionItIsTheProgramsOwnMatter) {
  Training training(1, Duration(0));
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(5)); };
  training.life = minutes(5);
  training.job().start_all();
  training.job().run(minutes(6));
  EXPECT_EQ(training.job().rounds().size(), 1U);
  EXPECT_EQ(training.job().exit_codes(), std::set<int>{0});
}

int count_notes(ElasticJob& job) {
  const std::vector<std::string> said = job.node(0).said();
  return static_cast<int>(std::count_if(said.begin(), said.end(), [](const std::string& line) {
    return line.find("nothing has moved for ") != std::string::npos;
  }));
}

TEST(Hang, IsOnlyReportedWithoutATimeout) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Training training(seed, Duration(0), 3, minutes(1));
    ElasticJob& job = training.job();
    training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(30)); };
    training.life = minutes(20);
    job.start_all();
    job.run(seconds(85));
    EXPECT_EQ(count_notes(job), 0) << "seed " << seed << "\n" << everything_said(job);
    job.run(seconds(30));
    EXPECT_EQ(count_notes(job), 1) << "seed " << seed << "\n" << everything_said(job);
    EXPECT_NE(everything_said(job).find(") never entered all_reduce #31 of group default; the other 2 have "),
              std::string::npos);
    job.run(minutes(3));
    EXPECT_EQ(count_notes(job), 1) << "seed " << seed;
    job.run(minutes(2));
    EXPECT_EQ(count_notes(job), 2) << "seed " << seed;
    job.run(minutes(18));
    job.check_ended();
    EXPECT_EQ(count_notes(job), 3) << "seed " << seed;
    EXPECT_EQ(job.rounds().size(), 1U);
    EXPECT_EQ(job.exit_codes(), std::set<int>{0}) << "seed " << seed;
  }
}

// All have called it: without the devices no rank could be named.
void let_gpu_of_rank_2_hang(Training& training) {
  training.absent = -1;
  training.device = [](int rank) { return rank == 2 ? page::Record::queued : page::Record::begun; };
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(30)); };
  training.job().start_all();
}

TEST(Hang, TheRankWhoseGpuHangsIsNamed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Training training(seed, Duration(0), 3, minutes(1));
    let_gpu_of_rank_2_hang(training);
    training.job().run(seconds(115));
    const std::string said = everything_said(training.job());
    for (const char* part :
         {": rank 2 (local rank 0, node 2, host node",
          ") has called all_reduce #31 of group default, but its GPU has not come to it: it still works on "
          "what the program gave it before; the other 2 wait for it on their GPUs, for up to ",
          "what the GPUs do: look for a kernel of rank 2 that does not end"})
      EXPECT_NE(said.find(part), std::string::npos) << "seed " << seed << "\n" << said;
  }
}

TEST(Hang, TheRankWhoseGpuHangsIsTheCause) {
  Training training(1, limit, 0);
  let_gpu_of_rank_2_hang(training);
  training.job().run(minutes(2));
  training.job().check_ended();
  const agent::Outcome& outcome = *training.job().node(0).outcome();
  EXPECT_EQ(outcome.cause.kind, agent::FailureKind::hang);
  EXPECT_EQ(outcome.cause.rank, 2);
  EXPECT_NE(outcome.cause.why.find("but its GPU has not come to it"), std::string::npos) << outcome.cause.why;
  EXPECT_NE(outcome.cause.remedy.find("CUDA_LAUNCH_BLOCKING=1"), std::string::npos) << outcome.cause.remedy;
}

TEST(Hang, IfAllGpusAreInItTheCommunicationIsChecked) {
  Training training(1, limit, 0);
  training.absent = -1;
  training.device = [](int) { return page::Record::begun; };
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(30)); };
  training.job().start_all();
  training.job().run(minutes(2));
  training.job().check_ended();
  const agent::Outcome& outcome = *training.job().node(0).outcome();
  EXPECT_EQ(outcome.cause.rank, -1);
  EXPECT_TRUE(outcome.cause.why.ends_with("; all GPUs are in it")) << outcome.cause.why;
  EXPECT_NE(outcome.cause.remedy.find("NCCL_DEBUG=INFO"), std::string::npos) << outcome.cause.remedy;
}

TEST(Hang, AProgramThatComputesForLongIsNotReported) {
  Training training(1, Duration(0), 3, minutes(1));
  training.waits = false;
  training.stuck_after = [](std::uint32_t) { return std::optional<Duration>(seconds(5)); };
  training.job().start_all();
  training.job().run(minutes(9));
  EXPECT_EQ(count_notes(training.job()), 0) << everything_said(training.job());
}

TEST(Hang, AProgramThatRecordsNothingNeverDoes) {
  Training training(1);
  training.job().cluster().records = [](int, std::uint32_t) {
    return WorkersSeen{{}, std::vector<GroupProgress>{}};
  };
  training.life = minutes(5);
  training.job().start_all();
  training.job().run(minutes(6));
  EXPECT_EQ(training.job().rounds().size(), 1U);
  EXPECT_EQ(training.job().exit_codes(), std::set<int>{0});
}

}  // namespace
}  // namespace dlaunch::sim
