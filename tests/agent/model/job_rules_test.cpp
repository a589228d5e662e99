#include "agent/model/job_rules.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

JobSpec a_job() {
  JobSpec job;
  job.nnodes = 4;
  job.max_restarts = 3;
  return job;
}

TEST(JobRules, EqualJobsHaveEqualRules) { EXPECT_EQ(difference(rules_of(a_job()), rules_of(a_job())), ""); }

// One mechanism for all of them: what any agent may have to decide by is compared here and nowhere else.
TEST(JobRules, EachRuleIsNamedWithBothValues) {
  struct Case {
    std::function<void(JobSpec&)> change;
    std::string expected;
  };
  const std::vector<Case> cases{
      {[](JobSpec& job) { job.nnodes = 5; }, "--nnodes=4, not --nnodes=5"},
      {[](JobSpec& job) { job.min_nodes = 2; }, "--nnodes=4, not --nnodes=2:4"},
      {[](JobSpec& job) { job.max_restarts = 0; }, "--max-restarts=3, not --max-restarts=0"},
      {[](JobSpec& job) { job.spares = 1; }, "--spares=0, not --spares=1"},
      {[](JobSpec& job) { job.hang_timeout = seconds(9); }, "--hang-timeout=0, not --hang-timeout=9"},
      {[](JobSpec& job) { job.accelerate = "gloo"; }, "--accelerate=none, not --accelerate=gloo"},
      {[](JobSpec& job) { job.counts_membership = true; },
       "--count-membership-changes=false, not --count-membership-changes=true"},
  };
  for (const Case& one : cases) {
    JobSpec other = a_job();
    one.change(other);
    EXPECT_EQ(difference(rules_of(a_job()), rules_of(other)), "this job has " + one.expected);
  }
}

TEST(JobRules, TheRemedyNamesBothWays) {
  const auto remedy = [](const std::function<void(JobSpec&)>& change) {
    JobSpec other = a_job();
    change(other);
    return remedy_of_difference(rules_of(a_job()), rules_of(other), "b");
  };
  EXPECT_EQ(remedy([](JobSpec&) {}), "");
  EXPECT_EQ(remedy([](JobSpec& job) { job.nnodes = 5; }),
            "start host b with --nnodes=4, or all others with --nnodes=5");
  EXPECT_EQ(remedy([](JobSpec& job) { job.counts_membership = true; }),
            "start host b without --count-membership-changes, or all others with "
            "--count-membership-changes=true");
  EXPECT_EQ(remedy([](JobSpec& job) { job.policy.final_codes = {3}; }),
            "start host b without --no-restart-on, or all others with --no-restart-on=3");
  EXPECT_EQ(remedy_of_difference(rules_of(a_job()), "", "b"), "use one version of dlaunch on all nodes");
}

TEST(JobRules, AMissingRuleDiffers) {
  EXPECT_EQ(difference(rules_of(a_job()), ""), "this job has --nnodes=4, not nothing");
  EXPECT_EQ(difference("", rules_of(a_job())), "this job has nothing, not --nnodes=4");
}

}  // namespace
}  // namespace dlaunch::agent
