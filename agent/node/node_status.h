// The status of one node's part of a job, as `dlaunch status` shows it, from the states of its machines.
// Pure.
#pragma once

#include <string>

#include "agent/control/coordinator.h"
#include "agent/control/member.h"
#include "agent/control/worker_group.h"
#include "agent/model/job_status.h"

namespace dlaunch::agent {

struct NodeParts {
  const JobSpec& job;
  const NodeSpec& node;
  const std::string& build;  // dlaunch's version
  const World& world;        // the last one; without members if there has been none
  const Member& member;
  const WorkerGroup& group;
  const Coordinator* coordinator = nullptr;  // of this node; none: it serves no endpoint
  TimePoint began{};
  TimePoint round_began{};
  bool round_done = false;  // all workers of this node have returned 0
  TimePoint now{};
};

JobStatus node_status(const NodeParts& parts);
// The same, with the workers of the last round if they are gone.
JobStatus last_node_status(const NodeParts& parts);

}  // namespace dlaunch::agent
