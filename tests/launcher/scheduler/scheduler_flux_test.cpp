// What is taken from a Flux job, and what is refused.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

// Flux serves PMI too.
const EnvironmentMap flux{{"FLUX_JOB_ID", "\u01922oLkTLb"},
                          {"FLUX_JOB_SIZE", "4"},
                          {"FLUX_JOB_NNODES", "4"},
                          {"FLUX_TASK_RANK", "2"},
                          {"FLUX_TASK_LOCAL_ID", "0"},
                          {"PMI_SIZE", "4"},
                          {"PMI_RANK", "2"}};

TEST(Flux, ATaskOnEachNodeIsANode) {
  const DetectedScheduler detected = found(flux, given({{"master-addr", "n1"}}));
  const auto got = values(detected);
  const std::string port = got.at("master-port");
  EXPECT_EQ(got,
            (std::map<std::string, std::string>{
                {"nnodes", "4"}, {"node-rank", "2"}, {"master-port", port}, {"rdzv-id", "flux-f2oLkTLb"}}));
  EXPECT_EQ(detected.notice, "Flux job f2oLkTLb: nodes 4, node rank 2, port " + port + ", id flux-f2oLkTLb");
}

TEST(Flux, BothSpellingsOfTheIdAreOneJob) {
  const Settings settings = given({{"master-addr", "n1"}});
  EXPECT_EQ(values(found(with(flux, {{"FLUX_JOB_ID", "f2oLkTLb"}}), settings)),
            values(found(flux, settings)));
}

TEST(Flux, TheFirstHostMustBeNamed) {
  EXPECT_EQ(refused(flux),
            "Flux job f2oLkTLb does not say on which host its first task is; name the first host with "
            "--rdzv-endpoint=HOST:PORT");
  EXPECT_EQ(values(found(flux, given({{"rdzv-endpoint", "n1:1"}}))),
            (std::map<std::string, std::string>{
                {"nnodes", "4"}, {"node-rank", "2"}, {"rdzv-id", "flux-f2oLkTLb"}}));
}

TEST(Flux, SeveralTasksOnANodeAreRefused) {
  const EnvironmentMap several = with(flux, {{"FLUX_JOB_NNODES", "2"}});
  EXPECT_EQ(
      refused(several),
      "Flux job f2oLkTLb started several dlaunch on this node; dlaunch starts the workers itself: use flux "
      "run --tasks-per-node=1, and --nproc-per-node");
}

TEST(Flux, OneNodeNeedsNoEndpoint) {
  const EnvironmentMap one{
      {"FLUX_JOB_ID", "f1"}, {"FLUX_JOB_SIZE", "1"}, {"FLUX_JOB_NNODES", "1"}, {"FLUX_TASK_RANK", "0"}};
  EXPECT_EQ(values(found(one)), (std::map<std::string, std::string>{
                                    {"nnodes", "1"}, {"node-rank", "0"}, {"rdzv-id", "flux-f1"}}));
}

TEST(Flux, FluxInASlurmStepDecides) {
  const auto got = values(found(with(slurm, flux), given({{"master-addr", "n1"}})));
  EXPECT_EQ(got.at("rdzv-id"), "flux-f2oLkTLb");
  EXPECT_EQ(got.at("nnodes"), "4");
}

// The script of `flux batch` has no task's number.
TEST(Flux, OutsideATaskNothingIsTaken) {
  EXPECT_TRUE(found({{"FLUX_URI", "local:///tmp/flux"}}).name.empty());
  EXPECT_TRUE(found({{"FLUX_JOB_ID", "f1"}, {"FLUX_JOB_SIZE", "x"}, {"FLUX_TASK_RANK", "0"}}).name.empty());
}

}  // namespace
}  // namespace dlaunch::launcher
