#include "launcher/scheduler/scheduler_allocation.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(Variables, TheFirstThatIsSetAndNotEmptyCounts) {
  const EnvironmentMap map{{"A", ""}, {"B", "b"}, {"C", "c"}};
  const Variables env(map);
  ASSERT_TRUE(env.text({"A", "B", "C"}));
  EXPECT_EQ(env.text({"A", "B", "C"})->text, "b");
  EXPECT_EQ(env.text({"A", "B", "C"})->from, "B");
  EXPECT_FALSE(env.text({"A", "D"}));
  EXPECT_TRUE(env.has("B"));
  EXPECT_FALSE(env.has("A"));
}

TEST(Variables, AValueThatIsNoNumberHidesThoseAfterIt) {
  const EnvironmentMap map{{"WORD", "4x"}, {"NUMBER", "04"}, {"NEGATIVE", "-1"}};
  const Variables env(map);
  EXPECT_EQ(env.number({"NUMBER"}), 4U);
  EXPECT_EQ(env.integer({"NUMBER"})->text, "04") << "as it was given";
  EXPECT_FALSE(env.number({"WORD", "NUMBER"}));
  EXPECT_FALSE(env.integer({"WORD", "NUMBER"}));
  EXPECT_FALSE(env.number({"NEGATIVE"}));
  EXPECT_FALSE(env.number({}));
}

TEST(PortOfAJob, IsTheSameOnAllNodesAndDiffersBetweenSteps) {
  const auto port = port_of("42", "0", "SLURM_JOB_ID");
  EXPECT_EQ(port.from, "SLURM_JOB_ID");
  EXPECT_EQ(port.text, port_of("42", "0", "").text);
  EXPECT_NE(port.text, port_of("42", "1", "").text);
  EXPECT_NE(port.text, port_of("43", "0", "").text);
  EXPECT_EQ(port_of("42", "", "").text, port_of("42", "", "").text);
}

TEST(JobOfOneDlaunchTooFewOrTooMany, IsTheUsersMistakeWithItsRemedy) {
  EXPECT_EQ(alone("Slurm job 42", "4", "start it with srun").message(),
            "Slurm job 42 has 4 nodes, but dlaunch was started on one of them only; start it with srun");
  EXPECT_EQ(alone("Slurm job 42", "4", "").kind, ErrorKind::invalid);
  EXPECT_EQ(
      several_here("Slurm step 42.0", "srun --ntasks-per-node=1").message(),
      "Slurm step 42.0 started several dlaunch on this node; dlaunch starts the workers itself: use srun "
      "--ntasks-per-node=1, and --nproc-per-node");
}

}  // namespace
}  // namespace dlaunch::launcher
