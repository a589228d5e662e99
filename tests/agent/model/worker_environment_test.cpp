#include "agent/model/worker_environment.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace dlaunch::agent {
namespace {

class WorkerEnvironment : public ::testing::Test {
 protected:
  std::map<std::string, std::string> of(int local_rank, InheritedEnvironment inherited = {}) {
    const Environment all = worker_environment(job_, node_, world_, local_rank, inherited);
    return {all.begin(), all.end()};
  }

  JobSpec job_{.id = "run-7", .nnodes = 2, .max_restarts = 3, .master = {"10.0.0.1", 29500}};
  NodeSpec node_{1, 2, "b", "trainer", {"./train"}};
  World world_{
      6, 4, 5, 2, 2, {"10.0.0.1", 29500}, {}, {}, {{1, 2, 3, "b", 0, 1, 1, 3}}, 1'700'000'000'000'001};
};

TEST_F(WorkerEnvironment, IsTorchruns) {
  const std::map<std::string, std::string> expected{
      {"RANK", "4"},
      {"LOCAL_RANK", "1"},
      {"WORLD_SIZE", "5"},
      {"LOCAL_WORLD_SIZE", "2"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"ROLE_NAME", "trainer"},
      {"ROLE_RANK", "2"},
      {"ROLE_WORLD_SIZE", "3"},
      {"MASTER_ADDR", "10.0.0.1"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RESTART_COUNT", "2"},
      {"TORCHELASTIC_MAX_RESTARTS", "3"},
      {"TORCHELASTIC_RUN_ID", "run-7"},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"TORCH_FR_BUFFER_SIZE", "2000"},
      {"TORCH_FR_DUMP_ON_TIMEOUT", "1"},
      {"GLOO_ENABLE_STORE_V2_API", "1"},
      {"GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1"},
      {"DLAUNCH_VERSION", DLAUNCH_VERSION},
      {"DLAUNCH_JOB_ID", "run-7"},
      {"DLAUNCH_ROUND", "4"},
      {"DLAUNCH_FENCING_TOKEN", "1700000000000001"}};
  EXPECT_EQ(of(1), expected);
}

TEST_F(WorkerEnvironment, LeavesAloneWhatTheUserSet) {
  const auto env = of(0, {true, true, true, true});
  EXPECT_FALSE(env.contains("GLOO_ENABLE_STORE_V2_API"));
  EXPECT_FALSE(env.contains("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER"));
  EXPECT_FALSE(env.contains("OMP_NUM_THREADS"));
  EXPECT_FALSE(env.contains("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

TEST_F(WorkerEnvironment, PyTorchRecordsAndAnswersInTheJobsFolder) {
  node_.scratch_dir = "/scratch";
  const auto env = of(1);
  EXPECT_EQ(env.at("TORCH_FR_DUMP_TEMP_FILE"), "/scratch/4_flight_rank_");
  EXPECT_EQ(env.at("TORCH_WORKER_SERVER_SOCKET"), "/scratch/4_1.worker");
  EXPECT_EQ(env.at("DLAUNCH_TORCH_SOCKET"), "/scratch/4_1.torch");
  InheritedEnvironment own;
  own.has_fr_buffer_size = own.has_fr_dump_on_timeout = own.has_fr_dump_file = true;
  own.has_worker_server_socket = own.has_torch_socket = true;
  for (const auto& [name, value] : of(1, own)) {
    EXPECT_FALSE(name.starts_with("TORCH_FR_") || name.ends_with("_SOCKET")) << name << "=" << value;
  }
  node_.scratch_dir = "/" + std::string(100, 'x');
  EXPECT_TRUE(of(1).contains("TORCH_FR_DUMP_TEMP_FILE"));
  EXPECT_FALSE(of(1).contains("TORCH_WORKER_SERVER_SOCKET")) << "no socket has so long a path";
  EXPECT_FALSE(of(1).contains("DLAUNCH_TORCH_SOCKET"));
}

TEST_F(WorkerEnvironment, OnlyAnAcceleratedJobGetsThePackage) {
  node_.python_package = "/build/python";
  EXPECT_FALSE(of(0).contains("PYTHONPATH"));
  EXPECT_FALSE(of(0).contains("DLAUNCH_ACCELERATE"));
  job_.accelerate = "gloo";
  EXPECT_EQ(of(0).at("DLAUNCH_ACCELERATE"), "gloo");
  EXPECT_EQ(of(0).at("PYTHONPATH"), "/build/python");
  EXPECT_EQ(of(0, {.python_path = "/own:/other"}).at("PYTHONPATH"), "/build/python:/own:/other");
  node_.python_package = "";
  EXPECT_FALSE(of(0, {.python_path = "/own"}).contains("PYTHONPATH")) << "it is inherited";
}

TEST_F(WorkerEnvironment, AnEmptyErrorFileIsNone) {
  node_.scratch_dir = "/scratch";
  EXPECT_TRUE(of(0)["TORCHELASTIC_ERROR_FILE"].starts_with("/scratch/"));
  node_.error_files = false;
  EXPECT_EQ(of(0).at("TORCHELASTIC_ERROR_FILE"), "");
}

TEST_F(WorkerEnvironment, ASingleWorkerMayUseAllThreads) {
  node_.slots = 1;
  EXPECT_FALSE(of(0).contains("OMP_NUM_THREADS"));
}

TEST_F(WorkerEnvironment, AWorkerMayUseAsManyThreadsAsItIsBoundToCores) {
  node_.places = {{{0, 1, 8, 9}, 2, ""}, {{2, 10}, 1, ""}};
  EXPECT_EQ(of(0)["OMP_NUM_THREADS"], "2");
  EXPECT_EQ(of(1)["OMP_NUM_THREADS"], "1");
  EXPECT_FALSE(of(0).contains("CUDA_VISIBLE_DEVICES"));
  node_.slots = 1;
  EXPECT_EQ(of(0)["OMP_NUM_THREADS"], "2");
}

TEST_F(WorkerEnvironment, AutomaticThreadsAreAShareOfTheCpus) {
  const InheritedEnvironment asked{.omp_num_threads_is_auto = true};
  node_.cpus = 9;
  EXPECT_EQ(of(0, asked)["OMP_NUM_THREADS"], "4");
  EXPECT_EQ(of(1, asked)["OMP_NUM_THREADS"], "4");
  node_.cpus = 1;
  EXPECT_EQ(of(0, asked)["OMP_NUM_THREADS"], "1") << "more workers than CPUs";
  node_.cpus = 9;
  node_.places = {{{0, 1, 8, 9}, 2, ""}, {{2, 10}, 1, ""}};
  EXPECT_EQ(of(0, asked)["OMP_NUM_THREADS"], "2") << "bound: the cores";
  EXPECT_EQ(of(1, asked)["OMP_NUM_THREADS"], "1");
  node_.places.clear();
  node_.slots = 1;
  EXPECT_EQ(of(0, asked)["OMP_NUM_THREADS"], "9") << "a single worker too";
}

TEST_F(WorkerEnvironment, AVirtualLocalRankIsZeroWithOneGpu) {
  node_.virtual_local_rank = true;
  node_.places = {{{}, 0, "4"}, {{}, 0, "5"}};
  const auto env = of(1);
  EXPECT_EQ(env.at("LOCAL_RANK"), "0");
  EXPECT_EQ(env.at("RANK"), "4");
  EXPECT_EQ(env.at("CUDA_VISIBLE_DEVICES"), "5");
  EXPECT_EQ(env.at("OMP_NUM_THREADS"), "1");
}

TEST(WorkerArguments, OnlyTheLocalRankIsReplaced) {
  EXPECT_EQ(worker_arguments({"./train", "--gpu=${local_rank}", "$$", "${local_rank}${local_rank}"}, 3),
            (std::vector<std::string>{"./train", "--gpu=3", "$$", "33"}));
}

}  // namespace
}  // namespace dlaunch::agent
