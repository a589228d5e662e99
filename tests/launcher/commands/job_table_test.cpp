#include "launcher/commands/job_table.h"

#include <gtest/gtest.h>

#include "tests/agent/model/example_job.h"

namespace dlaunch::launcher {
namespace {

TEST(JobTable, ANodeWithoutARankYetHasNone) {
  agent::JobStatus job = agent::example_status();
  job.node_rank = -1;
  EXPECT_NE(job_table({job}).find("train  - of 2"), std::string::npos) << job_table({job});
}

TEST(JobTable, ShowsStateWorkersAndFailure) {
  EXPECT_EQ(job_table({agent::example_status()}),
            "JOB    NODE    STATE    HERE  WORLD  RESTARTS  SINCE      AGENT  PROGRAM\n"
            "train  1 of 2  running  1     8      1 of 4    1 min 5 s  4711   ./train \"x\"\n"
            "  last event: rank 3 exited with code 1\n");
  agent::JobStatus waiting;
  waiting.job = "w";
  waiting.waiting_for = "nodes 1 and 3";
  waiting.state_age_s = 12;
  EXPECT_NE(
      job_table({waiting, agent::example_status()}).find("\n  has waited for nodes 1 and 3 for 12 s\ntrain"),
      std::string::npos);
}

TEST(JobTable, ShowsWorkers) {
  EXPECT_EQ(worker_table(agent::example_status()),
            "  RANK  LOCAL  PID   STATE\n"
            "  4     0      5000  running\n"
            "  5     1      -     starting\n");
}

TEST(JobTable, ShowsRanksThatCameLate) {
  agent::JobStatus job = agent::example_status();
  job.workers[0].came_last = 58;
  job.workers[0].late_s = 48;
  EXPECT_EQ(worker_table(job),
            "  RANK  LOCAL  PID   STATE     CAME LAST  LATE\n"
            "  4     0      5000  running   58         48 s\n"
            "  5     1      -     starting  0          0 ms\n");
}

TEST(JobTable, NothingSteersTheTerminal) {
  agent::JobStatus job = agent::example_status();
  job.program = "./x \x1b[2Jy\nz\u009B2J\u202E|";
  job.state = "run\u009Bning";
  const std::string table = job_table({job});
  EXPECT_NE(table.find("./x y z 2J |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("  run ning  "), std::string::npos) << table;
}

}  // namespace
}  // namespace dlaunch::launcher
