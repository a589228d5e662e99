// What --dry-run prints, to the letter.

#include "launcher/options/dry_run.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

MachineFacts four_cores() {
  MachineFacts machine;
  machine.cpus = 4;
  machine.host = "b";
  for (int i = 0; i < 4; ++i) machine.topology.cpus.push_back({i, i, 0, 0, 0});
  return machine;
}

std::string printed(const Words& arguments, const EnvironmentMap& environment,
                    const MachineFacts& machine = four_cores()) {
  const Options options = good(arguments, environment);
  auto plan = make_plan(options, machine);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.error().message());
  return plan.ok() ? dry_run(options, *plan, environment) : "";
}

TEST(DryRun, ListsCommandsThatWouldStart) {
  EXPECT_EQ(
      printed({"--nproc-per-node=2", "--nnodes=2", "--node-rank=1", "--rdzv-endpoint=h:7", "--rdzv-id=run 7",
               "--bind=core", "--pass-local-rank", "train.py", "--name=it's", "${local_rank}", "$$"},
              {{"GLOO_ENABLE_STORE_V2_API", "0"}, {"ROLE_NAME", "default"}, {"WORLD_SIZE", "9"}}),
      R"(job 'run 7': node 1 of 2 (b), 2 workers, store at h:7
all workers have:
  WORLD_SIZE=4
  LOCAL_WORLD_SIZE=2
  GROUP_RANK=1
  GROUP_WORLD_SIZE=2
  ROLE_WORLD_SIZE=4
  MASTER_ADDR=h
  MASTER_PORT=7
  TORCHELASTIC_RESTART_COUNT=0
  TORCHELASTIC_MAX_RESTARTS=0
  TORCHELASTIC_RUN_ID='run 7'
  TORCHELASTIC_USE_AGENT_STORE=True
  TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT
  TORCH_NCCL_ASYNC_ERROR_HANDLING=1
  OMP_NUM_THREADS=2
  GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER=1
  TORCH_FR_BUFFER_SIZE=2000
  TORCH_FR_DUMP_ON_TIMEOUT=1
  DLAUNCH_VERSION=)" DLAUNCH_VERSION R"(
  DLAUNCH_JOB_ID='run 7'
  DLAUNCH_ROUND=0
  DLAUNCH_FENCING_TOKEN=(a number that grows with each world)
rank 2:
  command: python3 -u train.py --local-rank=0 '--name=it'\''s' 0 '$$'
  cpus: 0,1 (2 cores)
  output: console
  RANK=2
  LOCAL_RANK=0
  ROLE_RANK=2
rank 3:
  command: python3 -u train.py --local-rank=1 '--name=it'\''s' 1 '$$'
  cpus: 2,3 (2 cores)
  output: console
  RANK=3
  LOCAL_RANK=1
  ROLE_RANK=3
)");
}

TEST(DryRun, OneWorkerAndTheSourcesOfSettings) {
  const std::string text =
      printed({"--verbose", "--no-env-defaults", "--virtual-local-rank", "./train"}, {{"PET_ROLE", "r"}});
  EXPECT_EQ(text.find("job standalone-0000000000000000: node 0 of 1 (b), 1 worker, store at 127.0.0.1, a "
                      "free port (served here)\n"
                      "settings:\n"
                      "  nproc-per-node            1 (default)\n"
                      "  role                      r (variable PET_ROLE)\n"),
            0U)
      << text;
  EXPECT_NE(text.find("  MASTER_PORT=(a free port)\n"), std::string::npos);
  EXPECT_NE(text.find("  CUDA_VISIBLE_DEVICES=0\n"), std::string::npos);
  EXPECT_NE(text.find("rank 0:\n  command: ./train\n  cpus: not bound\n"), std::string::npos) << text;
  for (const char* unset : {"OMP_NUM_THREADS", "GLOO_", "TORCH_NCCL", "TORCH_FR"})
    EXPECT_EQ(text.find(unset), std::string::npos) << unset;
}

TEST(DryRun, AutomaticThreadsAreANumber) {
  const EnvironmentMap asked{{"OMP_NUM_THREADS", "auto"}};
  const auto has = [&](const Words& arguments, const char* line) {
    return printed(arguments, asked).find(line) != std::string::npos;
  };
  EXPECT_TRUE(has({"--nproc-per-node=2", "x"}, "\n  OMP_NUM_THREADS=2\n"));
  EXPECT_TRUE(has({"x"}, "\n  OMP_NUM_THREADS=4\n"));
  EXPECT_TRUE(has({"--nproc-per-node=4", "--bind=core", "x"}, "\n  OMP_NUM_THREADS=1\n"));
}

TEST(DryRun, MemoryNodesOfWorkers) {
  MachineFacts machine = four_cores();
  machine.topology.knows_nodes = true;
  for (Cpu& cpu : machine.topology.cpus) cpu.node = cpu.id / 2;
  const std::string by_node = printed({"--nproc-per-node=2", "--bind=numa", "x"}, {}, machine);
  EXPECT_NE(by_node.find("  cpus: 0,1 (NUMA node 0)\n  memory: node 0 preferred\n  output: "),
            std::string::npos)
      << by_node;
  EXPECT_NE(by_node.find("  cpus: 2,3 (NUMA node 1)\n  memory: node 1 preferred\n  output: "),
            std::string::npos)
      << by_node;
  const std::string by_package = printed({"--numa-binding=socket", "x"}, {}, machine);
  EXPECT_NE(by_package.find("\n  memory: nodes 0,1 preferred\n"), std::string::npos) << by_package;
  for (const char* flag : {"--bind=core", "--bind=none"})
    EXPECT_EQ(printed({flag, "x"}, {}, machine).find("memory:"), std::string::npos) << flag;
}

TEST(DryRun, DestinationsOfOutput) {
  const std::string text = printed(
      {"--nproc-per-node=3", "--log-dir=logs", "-r", "0:3,1:2", "-t", "1:1", "--local-ranks-filter=0,1", "x"},
      {});
  EXPECT_NE(text.find("log files in a new directory in logs\n"), std::string::npos) << text;
  for (const char* lines :
       {"rank 0:\n  command: x\n  cpus: not bound\n  output: file\n",
        "rank 1:\n  command: x\n  cpus: not bound\n  output: stdout to file and console, stderr to file\n",
        "rank 2:\n  command: x\n  cpus: not bound\n  output: nowhere\n"})
    EXPECT_NE(text.find(lines), std::string::npos) << lines << text;
}

TEST(DryRun, RanksThatAreFoundLaterAreNoFacts) {
  const char* note = "ranks are assigned when the nodes meet; ";
  EXPECT_NE(printed({"--nnodes=1:3", "--rdzv-endpoint=a", "x"}, {}).find(note), std::string::npos);
  EXPECT_EQ(printed({"--nnodes=3", "--node-rank=1", "--rdzv-endpoint=a", "x"}, {}).find(note),
            std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher
