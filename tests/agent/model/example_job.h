// A job of two nodes, and the status of one of its nodes: what tests begin with.
#pragma once

#include "agent/model/job.h"
#include "agent/model/job_status.h"

namespace dlaunch::agent {

inline JobSpec example_job() {
  JobSpec job;
  job.id = "j";
  job.nnodes = 2;
  job.join_timeout = std::chrono::seconds(60);
  job.stop_timeout.usual = std::chrono::seconds(30);
  job.master = {"m", 29500};
  return job;
}

inline JobStatus example_status() {
  JobStatus status;
  status.job = "train";
  status.program = "./train \"x\"";
  status.version = "0.2.0";
  status.agent = 4711;
  status.host = "a";
  status.node_rank = 1;
  status.nnodes = 2;
  status.state = "running";
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

}  // namespace dlaunch::agent
