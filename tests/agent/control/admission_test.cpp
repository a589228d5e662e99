// Which nodes are refused, and why.
#include "agent/control/admission.h"

#include <gtest/gtest.h>

#include "agent/model/job_rules.h"
#include "tests/agent/model/example_job.h"

namespace dlaunch::agent {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  AdmissionTest() {
    job_.max_restarts = 1;
    join_ = {"j", 1, 4, "b", "0.1", 101};
    join_.rules = rules_of(job_);
  }
  std::string refusal() { return refused().why; }
  std::string remedy() { return refused().remedy; }
  Admission::Refusal refused() {
    return Admission(job_).reason_to_refuse(join_, {here_, restarts_, forming_, ending_, fewest_});
  }

  JobSpec job_ = example_job();
  Join join_;
  Membership here_;
  std::vector<Restart> restarts_;
  bool forming_ = true;
  bool ending_ = false;
  int fewest_ = 2;
};

TEST_F(AdmissionTest, NodeWithTheSameRulesIsTaken) { EXPECT_EQ(refusal(), ""); }

TEST_F(AdmissionTest, EachOtherRuleIsNamed) {
  join_.job_id = "k";
  EXPECT_EQ(refusal(), "this is job 'j', not 'k'");
  EXPECT_EQ(remedy(), "start host b with --rdzv-id=j, or give job 'k' an endpoint of its own");
  join_.job_id = "j";
  const auto refusal_of = [&](const auto& change) {
    JobSpec other = job_;
    change(other);
    join_.rules = rules_of(other);
    return refusal();
  };
  EXPECT_EQ(refusal_of([](JobSpec& other) { other.nnodes = 3; }), "this job has --nnodes=2, not --nnodes=3");
  EXPECT_EQ(refusal_of([](JobSpec& other) { other.min_nodes = 1; }),
            "this job has --nnodes=2, not --nnodes=1:2");
  EXPECT_EQ(refusal_of([](JobSpec& other) { other.max_restarts = 0; }),
            "this job has --max-restarts=1, not --max-restarts=0");
  EXPECT_EQ(refusal_of([](JobSpec& other) { other.spares = 1; }), "this job has --spares=0, not --spares=1");
}

TEST_F(AdmissionTest, HostileRulesAreShownShortAndPrintable) {
  join_.rules = "--nnodes=\x1b" + std::string(max_text, '7');
  EXPECT_LT(refusal().size(), 1100U);
  EXPECT_EQ(refusal().find('\x1b'), std::string::npos);
  EXPECT_TRUE(refusal().starts_with("this job has --nnodes=2, not --nnodes=")) << refusal();
  EXPECT_LT(remedy().size(), 1100U);
  EXPECT_EQ(remedy().find('\x1b'), std::string::npos);
}

TEST_F(AdmissionTest, NumbersOutOfRangeAreRefused) {
  join_.node_rank = 2;
  EXPECT_EQ(refusal(), "--node-rank=2 is outside --nnodes=2");
  EXPECT_EQ(remedy(), "start host b with a --node-rank from 0 to 1");
  join_.node_rank = 1;
  join_.round = Admission::last_round + 1;
  EXPECT_NE(refusal(), "");
  join_.round = 0;
  for (const int slots : {0, -1, max_slots + 1}) {
    join_.slots = slots;
    EXPECT_NE(refusal(), "") << slots;
  }
}

TEST_F(AdmissionTest, RankOfAPresentNodeIsTaken) {
  here_.add(0, join_, "", {});
  EXPECT_EQ(refusal(), "--node-rank=1 is taken by host b");
  EXPECT_EQ(remedy(), "start host b with another --node-rank; no node has 0 yet");
}

TEST_F(AdmissionTest, FixedJobTakesNobodyWhileItRuns) {
  forming_ = false;
  EXPECT_EQ(refusal(), "all nodes of the job have joined already");
  EXPECT_EQ(remedy(), "start the job with --nnodes=2:3 to let more nodes join while it runs");
  ending_ = true;
  EXPECT_EQ(refusal(), "the job is ending");
}

TEST_F(AdmissionTest, HostThatFailedOftenIsLeftOutUnlessNeeded) {
  job_.policy.exclude_after = 2;
  join_.rules = rules_of(job_);
  Restart restart;
  restart.cause.host = "b";
  restarts_ = {restart, restart};
  EXPECT_EQ(refusal(), "") << "the job cannot go on without it";
  fewest_ = 0;
  EXPECT_EQ(refusal(), "host b is excluded: it failed 2 times (--exclude-after)");
  EXPECT_EQ(remedy(), "repair host b, or raise --exclude-after on all nodes (it is 2)");
}

TEST_F(AdmissionTest, FullMajorityMakesANodeWait) {
  job_.endpoints = {{"a", 1}, {"b", 1}};
  const Admission admission(job_);
  EXPECT_EQ(admission.reason_to_wait(join_, here_, true), "");
  here_.add(0, join_, "", {});
  here_.add(1, join_, "", {});
  EXPECT_EQ(admission.reason_to_wait(join_, here_, true), "this job already has its 2 nodes");
}

TEST_F(AdmissionTest, UnbelievableTokenMakesANodeWait) {
  join_.fencing = 12;
  EXPECT_NE(Admission(job_).reason_to_wait(join_, here_, false).find("12"), std::string::npos);
}

TEST_F(AdmissionTest, LastFewRefusalsAreKeptOnceEach) {
  Admission admission(job_);
  EXPECT_EQ(admission.refused_meanwhile(), "");
  for (const char* peer : {"a", "b", "a"}) admission.remember(peer, "why");
  EXPECT_EQ(admission.refused_meanwhile(), "; refused meanwhile: b (why), a (why)");
  for (const char* peer : {"c", "d", "e"}) admission.remember(peer, "why");
  EXPECT_EQ(admission.refused_meanwhile().find("b (why)"), std::string::npos);
  admission.remember("f", "why", "start host f again");
  EXPECT_EQ(admission.remedy_of_refusal(), "start host f again");
  admission.forget_refusals();
  EXPECT_EQ(admission.refused_meanwhile() + admission.remedy_of_refusal(), "");
}

}  // namespace
}  // namespace dlaunch::agent
