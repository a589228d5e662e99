#include "agent/model/job_status.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

JobStatus a_status() {
  JobStatus status;
  status.job = "train";
  status.program = "./train \"x\"";
  status.version = "0.2.0";
  status.agent = 4711;
  status.host = "a";
  status.node_rank = 1;
  status.nnodes = 2;
  status.state = "running";
  status.waiting_for = "node 0";
  status.round = 3;
  status.world_size = 8;
  status.restarts_used = 1;
  status.max_restarts = 4;
  status.age_s = 100;
  status.state_age_s = 65.25;
  status.endpoint = "a:29500";
  status.last_failure = "rank 3 exited with code 1";
  status.log_dir = "/logs";
  status.pages_dir = "/pages";
  status.workers = {{4, 0, 5000, "running", "step 1"}, {5, 1, 0, "starting", ""}};
  return status;
}

TEST(JobStatus, JsonHasTheseNamesInThisOrder) {
  EXPECT_EQ(
      to_json(a_status()),
      R"({"job":"train","program":"./train \"x\"","version":"0.2.0","agent":4711,"host":"a","node_rank":1,)"
      R"("nnodes":2,"state":"running","waiting_for":"node 0","round":3,"world_size":8,"restarts_used":1,)"
      R"("max_restarts":4,"age_s":100.0,"state_age_s":65.25,"endpoint":"a:29500",)"
      R"("last_failure":"rank 3 exited with code 1","log_dir":"/logs","pages_dir":"/pages","workers":[)"
      R"({"rank":4,"local_rank":0,"pid":5000,"state":"running","last_output":"step 1"},)"
      R"({"rank":5,"local_rank":1,"pid":0,"state":"starting","last_output":""}]})");
}

TEST(JobStatus, AWorkerMustHaveItsRankPidAndState) {
  EXPECT_TRUE(status_from_json(R"({"workers":[{"rank":4,"local_rank":0,"pid":1,"state":"ended"}]})").ok());
  EXPECT_FALSE(status_from_json(R"({"workers":[{"rank":4,"local_rank":0,"pid":1}]})").ok());
}

}  // namespace
}  // namespace dlaunch::agent
