#include "examples/train_mnist/options.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <vector>

#include "examples/train_mnist/job.h"

namespace mnist {
namespace {

Options parse(std::initializer_list<const char*> arguments) {
  return parse_options(std::vector<const char*>(arguments));
}

std::string complaint(std::initializer_list<const char*> arguments) {
  try {
    parse(arguments);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(no complaint)";
}

TEST(Options, defaults_are_the_demo) {
  const Options options = parse({});
  EXPECT_EQ(options.epochs, 2U);
  EXPECT_TRUE(options.data.empty());
  EXPECT_FALSE(options.fail_at_step);
}

TEST(Options, takes_values_both_ways) {
  const Options options = parse({"--epochs=3", "--lr", "0.5", "--data", "/x", "--checkpoint=/y=z", "--seed=0",
                                 "--fail-at-step=7", "--fail-rank", "0", "--batch-size=64"});
  EXPECT_EQ(options.epochs, 3U);
  EXPECT_EQ(options.learning_rate, 0.5F);
  EXPECT_EQ(options.data, "/x");
  EXPECT_EQ(options.checkpoint, "/y=z");
  EXPECT_EQ(options.seed, 0U);
  EXPECT_EQ(options.fail_at_step, 7U);
  EXPECT_EQ(options.fail_rank, 0U);
  EXPECT_EQ(options.batch_size, 64U);
}

TEST(Options, names_what_it_does_not_know) {
  EXPECT_EQ(complaint({"--epoch=3"}), "unknown argument '--epoch=3'; see --help");
  EXPECT_EQ(complaint({"epochs"}), "unknown argument 'epochs'; see --help");
  EXPECT_EQ(complaint({""}), "unknown argument ''; see --help");
  EXPECT_EQ(complaint({"--no-checkpoint=1"}), "unknown argument '--no-checkpoint=1'; see --help");
}

TEST(Options, refuses_what_is_no_number_in_range) {
  for (const char* bad :
       {"--epochs=0", "--epochs=-1", "--epochs=2x", "--epochs= 2", "--epochs=99999999999999999999",
        "--batch-size=0", "--lr=nan", "--lr=inf", "--lr=-1", "--lr=0", "--fail-at-step=0"})
    EXPECT_EQ(complaint({bad}), std::string(bad) + " is not a number in its range; see --help");
  EXPECT_EQ(complaint({"--epochs="}), "--epochs needs a value; see --help");
  EXPECT_EQ(complaint({"--epochs"}), "--epochs needs a value; see --help");
}

TEST(Options, refuses_contradictions) {
  EXPECT_NE(complaint({"--checkpoint=x", "--no-checkpoint"}), "(no complaint)");
  EXPECT_NE(complaint({"--fail-rank=1"}), "(no complaint)");
}

TEST(Options, a_device_is_cpu_or_cuda) {
  EXPECT_EQ(parse({}).device, DeviceKind::cpu);
  EXPECT_EQ(parse({"--device=cpu"}).device, DeviceKind::cpu);
  EXPECT_EQ(parse({"--device", "cuda"}).device, DeviceKind::cuda);
  EXPECT_EQ(complaint({"--device=gpu"}), "--device=gpu is neither cpu nor cuda; see --help");
  EXPECT_EQ(complaint({"--device="}), "--device needs a value; see --help");
}

TEST(Options, nccl_carries_only_what_is_on_a_gpu) {
  EXPECT_EQ(group_backend(parse({})), "");
  EXPECT_EQ(group_backend(parse({"--backend=shm"})), "shm");
  EXPECT_EQ(group_backend(parse({"--device=cuda", "--backend=gloo"})), "gloo");
  EXPECT_EQ(group_backend(parse({"--backend=nccl", "--device=cuda"})), "cpu:gloo,cuda:nccl");
  EXPECT_EQ(complaint({"--backend=nccl"}),
            "--backend=nccl needs --device=cuda: NCCL only takes what is on a GPU");
}

TEST(Options, help_names_every_option) {
  for (const char* option : {"--epochs", "--batch-size", "--lr", "--seed", "--device", "--backend", "--data",
                             "--checkpoint", "--no-checkpoint", "--fail-at-step", "--fail-rank"})
    EXPECT_NE(help_text().find(option), std::string_view::npos) << option;
}

Job job(std::map<std::string, std::string> variables) {
  return job_from([variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Job, without_a_rank_nobody_launched_it) {
  EXPECT_FALSE(job({}).launched);
  EXPECT_EQ(job({{"WORLD_SIZE", "4"}}).world_size, 1U);
}

TEST(Job, reads_the_launchers_environment) {
  const Job first = job({{"RANK", "3"},
                         {"LOCAL_RANK", "1"},
                         {"WORLD_SIZE", "4"},
                         {"TORCHELASTIC_RUN_ID", "none"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"}});
  EXPECT_TRUE(first.launched);
  EXPECT_EQ(first.rank, 3U);
  EXPECT_EQ(first.local_rank, 1U);
  EXPECT_EQ(first.world_size, 4U);
  EXPECT_TRUE(first.first_round);
  EXPECT_EQ(first.id, "none-29500");
}

TEST(Job, is_not_in_its_first_round_after_a_restart_or_a_new_world) {
  const Job restarted = job({{"RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(restarted.restarts, 1U);
  EXPECT_FALSE(restarted.first_round);
  const Job grown = job({{"RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "0"}, {"DLAUNCH_ROUND", "2"}});
  EXPECT_EQ(grown.restarts, 0U);
  EXPECT_FALSE(grown.first_round);
}

TEST(Job, id_is_safe_in_a_file_name) {
  EXPECT_EQ(job({{"RANK", "0"}, {"DLAUNCH_JOB_ID", "../../etc/x y"}, {"MASTER_PORT", "1"}}).id,
            "______etc_x_y-1");
  EXPECT_LT(job({{"RANK", "0"}, {"DLAUNCH_JOB_ID", std::string(5000, 'a')}}).id.size(), 200U);
}

TEST(Job, names_the_variable_that_is_no_number) {
  try {
    job({{"RANK", "one"}});
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_STREQ(error.what(), "environment variable RANK is 'one', not a number");
  }
}

}  // namespace
}  // namespace mnist
