#include "launcher/machine/collect_facts.h"

#include <gtest/gtest.h>

#include <fstream>

#include "launcher/machine/machine.h"
#include "tests/launcher/flags/parsed_options.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::launcher {
namespace {

TEST(CollectFacts, AreThoseOfThisMachineAndTheGivenEnvironment) {
  const auto facts = collect_facts(good({"./train"}), {{{"CUDA_VISIBLE_DEVICES", "1"}}, "a", ""});
  EXPECT_EQ(facts.cpus, static_cast<int>(allowed_cpus().size()));
  EXPECT_EQ(facts.host, "a");
  EXPECT_EQ(facts.visible_gpus, "1");
  EXPECT_FALSE(facts.visible_hip_gpus);
  EXPECT_FALSE(facts.program_is_python);
  EXPECT_EQ(facts.topology.cpus.size(), 0U) << "no worker is bound";
}

TEST(CollectFacts, TopologyIsReadIfWorkersAreBound) {
  const auto facts = collect_facts(good({"--bind=core", "./train"}), {{}, "a", ""});
  EXPECT_EQ(facts.topology.cpus.size(), allowed_cpus().size());
}

TEST(CollectFacts, VisibleDevicesAreTheAcceleratorsIfTheyAreCounted) {
  const EnvironmentMap environment{{"CUDA_VISIBLE_DEVICES", "-1"}};
  EXPECT_EQ(collect_facts(good({"--nproc-per-node=gpu", "./train"}), {environment, "a", ""}).accelerators, 0);
}

TEST(CollectFacts, AProgramIsPythonByItsContent) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() + "/train") << "#!/usr/bin/env python3\nimport os\n";
  EXPECT_TRUE(collect_facts(good({folder.path() + "/train"}), {{}, "a", ""}).program_is_python);
}

TEST(CollectFacts, EachDrawsAnotherNumber) {
  EXPECT_NE(collect_facts(good({"x"}), {{}, "a", ""}).random,
            collect_facts(good({"x"}), {{}, "a", ""}).random);
}

}  // namespace
}  // namespace dlaunch::launcher
