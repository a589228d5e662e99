#include "agent/model/job_status.h"

#include <gtest/gtest.h>

#include "tests/agent/model/example_job.h"

namespace dlaunch::agent {
namespace {

TEST(JobStatus, JsonHasTheseNamesInThisOrder) {
  JobStatus status = example_status();
  status.waiting_for = "node 0";
  status.workers[1].came_last = 58;
  status.workers[1].late_s = 48.5;
  status.steady_ns = 12;
  status.clock = {7, -5, 90};
  EXPECT_EQ(
      to_json(status),
      R"({"job":"train","program":"./train \"x\"","version":"0.2.0","agent":4711,"host":"a","node_rank":1,)"
      R"("nnodes":2,"state":"running","waiting_for":"node 0","round":3,"world_size":8,"restarts_used":1,)"
      R"("max_restarts":4,"age_s":100.0,"state_age_s":65.25,"endpoint":"a:29500",)"
      R"("last_failure":"rank 3 exited with code 1","unnoticed_s":0.0,"straggler":"","log_dir":"/logs","pages_dir":"/pages",)"
      R"("steady_ns":12,"clock":{"id":7,"unix_minus_steady_ns":-5,"error_ns":90},"workers":[)"
      R"({"rank":4,"local_rank":0,"pid":5000,"state":"running","last_output":"step 1",)"
      R"("came_last":0,"late_s":0.0},)"
      R"({"rank":5,"local_rank":1,"pid":0,"state":"starting","last_output":"",)"
      R"("came_last":58,"late_s":48.5}]})");
}

TEST(JobStatus, AWorkerMustHaveItsRankPidAndState) {
  EXPECT_TRUE(status_from_json(R"({"workers":[{"rank":4,"local_rank":0,"pid":1,"state":"ended"}]})").ok());
  EXPECT_FALSE(status_from_json(R"({"workers":[{"rank":4,"local_rank":0,"pid":1}]})").ok());
}

TEST(JobStatus, SurvivesItsJson) {
  EXPECT_EQ(*status_from_json(to_json(example_status())), example_status());
  const auto other = status_from_json(R"({"job": "x", "unknown": 1})");  // another version's
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->job, "x");
}

TEST(JobStatus, AnyBytesOfAProgramMakeValidJson) {
  JobStatus job = example_status();
  job.program = "./\xff\x01\n\"";
  EXPECT_TRUE(status_from_json(to_json(job)).ok());
}

TEST(JobStatus, MalformedStatusIsRejected) {
  for (const char* text : {"", "null", "[]", "{", R"({"job": 1})", R"({"workers": 5})", R"({"workers": [1]})",
                           R"({"workers": [{"rank": 1}]})", R"({"agent": "x"})"}) {
    const auto status = status_from_json(text);
    EXPECT_FALSE(status.ok()) << text;
  }
}

}  // namespace
}  // namespace dlaunch::agent
