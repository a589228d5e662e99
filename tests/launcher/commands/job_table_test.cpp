#include "launcher/commands/job_table.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

agent::JobStatus a_job() {
  agent::JobStatus job;
  job.job = "train";
  job.program = "./train --lr=1";
  job.version = "0.1.0";
  job.agent = 4711;
  job.host = "a";
  job.node_rank = 1;
  job.nnodes = 2;
  job.state = "running";
  job.round = 3;
  job.world_size = 8;
  job.restarts_used = 1;
  job.max_restarts = 3;
  job.age_s = 100;
  job.state_age_s = 65;
  job.endpoint = "a:29500";
  job.last_failure = "rank 3 exited with code 1";
  job.workers = {{4, 0, 5000, "running", "step 1"}, {5, 1, 0, "starting", ""}};
  return job;
}

TEST(JobStatus, SurvivesItsJson) {
  EXPECT_EQ(*agent::status_from_json(to_json(a_job())), a_job());
  const auto other = agent::status_from_json(R"({"job": "x", "unknown": 1})");  // another version's
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(other->job, "x");
}

TEST(JobStatus, ANodeWithoutARankYetHasNone) {
  agent::JobStatus job = a_job();
  job.node_rank = -1;
  EXPECT_NE(job_table({job}).find("train  - of 2"), std::string::npos) << job_table({job});
}

TEST(JobStatus, AnyBytesOfAProgramMakeValidJson) {
  agent::JobStatus job = a_job();
  job.program = "./\xff\x01\n\"";
  EXPECT_TRUE(agent::status_from_json(to_json(job)).ok());
}

TEST(JobStatus, MalformedStatusIsRejected) {
  for (const char* text : {"", "null", "[]", "{", R"({"job": 1})", R"({"workers": 5})", R"({"workers": [1]})",
                           R"({"workers": [{"rank": 1}]})", R"({"agent": "x"})"}) {
    const auto status = agent::status_from_json(text);
    EXPECT_FALSE(status.ok()) << text;
  }
}

TEST(JobTable, ShowsStateWorkersAndFailure) {
  EXPECT_EQ(job_table({a_job()}),
            "JOB    NODE    STATE    HERE  WORLD  RESTARTS  SINCE      AGENT  PROGRAM\n"
            "train  1 of 2  running  1     8      1 of 3    1 min 5 s  4711   ./train --lr=1\n"
            "  last event: rank 3 exited with code 1\n");
  agent::JobStatus waiting;
  waiting.job = "w";
  waiting.waiting_for = "nodes 1 and 3";
  waiting.state_age_s = 12;
  EXPECT_NE(job_table({waiting, a_job()}).find("\n  has waited for nodes 1 and 3 for 12 s\ntrain"),
            std::string::npos);
}

TEST(JobTable, ShowsWorkers) {
  EXPECT_EQ(worker_table(a_job()),
            "  RANK  LOCAL  PID   STATE\n"
            "  4     0      5000  running\n"
            "  5     1      -     starting\n");
}

TEST(JobTable, NothingSteersTheTerminal) {
  agent::JobStatus job = a_job();
  job.program = "./x \x1b[2Jy\nz\u009B2J\u202E|";
  job.state = "run\u009Bning";
  const std::string table = job_table({job});
  EXPECT_NE(table.find("./x y z 2J |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  run ning  "), std::string::npos) << table;
}

}  // namespace
}  // namespace dlaunch::launcher
