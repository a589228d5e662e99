#include "launcher/plan.h"

#include <gtest/gtest.h>

#include "launcher/report.h"
#include "launcher/spelling.h"

namespace dlaunch::launcher {
namespace {

JobPlan plan_of(Options options, MachineFacts machine = {4, 0, "a", "python3"}) {
  if (options.program.empty()) options.program = {"./train", "--x"};
  auto plan = make_plan(options, machine);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? *plan : JobPlan{};
}

TEST(Plan, OneNodeTakesAFreePortAndSeveralTheUsualOne) {
  EXPECT_EQ(plan_of({}).job.master, (Address{"127.0.0.1", 0}));
  Options two;
  two.nnodes = 2;
  two.node_rank = 1;
  two.master_addr = "h";
  EXPECT_EQ(plan_of(two).job.master, (Address{"h", 29500}));
  EXPECT_FALSE(plan_of(two).hosts_store);
}

TEST(Plan, PythonScriptsAndModulesGetPython) {
  Options script;
  script.program = {"train.py", "--x"};
  EXPECT_EQ(plan_of(script).node.command, (std::vector<std::string>{"python3", "-u", "train.py", "--x"}));
  EXPECT_EQ(plan_of(script).script, "train.py");
  script.no_python = true;
  EXPECT_EQ(plan_of(script).node.command, (std::vector<std::string>{"train.py", "--x"}));
  Options module;
  module.program = {"pkg.train"};
  module.module = true;
  EXPECT_EQ(plan_of(module).node.command, (std::vector<std::string>{"python3", "-u", "-m", "pkg.train"}));
}

TEST(Plan, CountsProcessorsAndGpus) {
  Options automatic;
  automatic.slots_kind = Options::Slots::gpus_or_cpus;
  EXPECT_EQ(plan_of(automatic).node.slots, 4);
  EXPECT_EQ(plan_of(automatic, {4, 2, "a", "python3"}).node.slots, 2);
  Options gpu;
  gpu.slots_kind = Options::Slots::all_gpus;
  gpu.program = {"x"};
  auto none = make_plan(gpu, {4, 0, "a", "python3"});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message().find("no GPU"), std::string::npos);
}

TEST(Report, TheLastParagraphIsOneLineThatSaysEverything) {
  agent::JobSpec job;
  job.max_restarts = 2;
  agent::Outcome outcome;
  outcome.failed = true;
  outcome.restarts_used = 2;
  outcome.cause.kind = agent::FailureKind::worker;
  outcome.cause.rank = 3;
  outcome.cause.local_rank = 1;
  outcome.cause.node_rank = 1;
  outcome.cause.host = "b";
  outcome.cause.pid = 7;
  outcome.cause.status = {agent::ExitStatus::How::exited, 5, false};
  outcome.cause.tail = "one\ntwo";
  EXPECT_EQ(end_report(job, outcome),
            (std::vector<std::string>{"the last lines that rank 3 wrote to stderr:\n  | one\n  | two",
                                      "failed: rank 3 (local rank 1, node 1, host b, pid 7) exited with code "
                                      "5; 2 of 2 restarts were used"}));
  EXPECT_TRUE(end_report(job, agent::Outcome{}).empty());
}

TEST(Spelling, FindsTheNearestWordIfItIsNear) {
  const std::vector<std::string> words{"--nnodes", "--node-rank", "--max-restarts"};
  EXPECT_EQ(nearest("--nndoes", words), "--nnodes");
  EXPECT_EQ(nearest("--node_rank", words), "--node-rank");
  EXPECT_EQ(nearest("--something-else", words), "");
}

}  // namespace
}  // namespace dlaunch::launcher
