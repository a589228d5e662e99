#include "agent/model/job.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dlaunch::agent {
namespace {

TEST(Failure, DescribesWhatWhereAndWhy) {
  Failure f;
  f.kind = FailureKind::worker;
  f.node_rank = 1;
  f.host = "b";
  f.rank = 3;
  f.local_rank = 1;
  f.pid = 4711;
  f.status = {ExitStatus::How::exited, 3, false};
  EXPECT_EQ(describe(f), "rank 3 (local rank 1, node 1, host b, pid 4711) exited with code 3");
  EXPECT_EQ(exit_code_of(f), 3);
  f.kind = FailureKind::signal;
  f.status = {ExitStatus::How::signaled, SIGTERM, false};
  EXPECT_EQ(exit_code_of(f), 143);
}

}  // namespace
}  // namespace dlaunch::agent
