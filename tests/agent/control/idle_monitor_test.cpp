#include "agent/control/idle_monitor.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class IdleMonitorTest : public ::testing::Test {
 protected:
  IdleMonitorTest() {
    monitor_.begin(now_);
    look({});
  }
  // Five seconds later; `cpu`: what each worker has used meanwhile.
  Duration look(std::vector<Duration> cpu, std::uint64_t printed = 0) {
    now_ += seconds(5);
    cpu.resize(2);
    usage_.cpu.resize(2);
    for (std::size_t i = 0; i < 2; ++i) usage_.cpu[i] += cpu[i];
    usage_.printed += printed;
    return monitor_.observe(now_, usage_, seconds(11));
  }
  IdleMonitor monitor_;
  TimePoint now_{seconds(100)};
  WorkerUsage usage_;
};

TEST_F(IdleMonitorTest, CountsWhileNoWorkerUsesTheCpu) {
  EXPECT_EQ(look({}), seconds(5));
  EXPECT_EQ(look({milliseconds(100), milliseconds(100)}), seconds(10)) << "2 % of a CPU";
  EXPECT_EQ(look({milliseconds(0), milliseconds(101)}), Duration(0)) << "one is enough";
  EXPECT_EQ(look({}), seconds(5));
}

TEST_F(IdleMonitorTest, AWorkerThatPrintsIsNotIdle) {
  look({});
  EXPECT_EQ(look({}, 1), Duration(0));
  EXPECT_EQ(look({}), seconds(5));
}

TEST_F(IdleMonitorTest, TheEndOfAProcessIsUse) {
  look({seconds(3)});
  EXPECT_EQ(look({}), seconds(5));
  usage_.cpu[0] -= seconds(2);
  EXPECT_EQ(look({}), Duration(0));
}

TEST_F(IdleMonitorTest, ALookThatComesLateProvesNothing) {
  look({});
  now_ += seconds(20);
  EXPECT_EQ(look({}), Duration(0)) << "the agent did not run, and the workers may not have run either";
  EXPECT_EQ(look({}), seconds(5));
}

TEST_F(IdleMonitorTest, AWorkerMayAnswerAQuestionButNotCompute) {
  const auto soon = [&](Duration used) {
    now_ += milliseconds(100);
    usage_.cpu[0] += used;
    return monitor_.observe(now_, usage_, seconds(11));
  };
  EXPECT_GT(soon(milliseconds(100)), Duration(0));
  EXPECT_GT(soon(milliseconds(2)), Duration(0)) << "2 %";
  EXPECT_EQ(soon(milliseconds(3)), Duration(0)) << "it goes on";
  EXPECT_GT(soon(milliseconds(40)), Duration(0)) << "40 %: too much, but not at once";
  EXPECT_GT(soon(milliseconds(40)), Duration(0));
  EXPECT_EQ(soon(milliseconds(40)), Duration(0));
}

TEST_F(IdleMonitorTest, ARoundBeginsAnew) {
  look({});
  monitor_.begin(now_);
  usage_ = {};
  look({});
  EXPECT_EQ(look({}), seconds(5));
}

}  // namespace
}  // namespace dlaunch::agent
