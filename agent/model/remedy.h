// What a user can try after a failure of the job: one line, with the job's own names and numbers. Empty if
// nothing that would help is known. For the ends of workers: agent/observe/exit_remedy.h. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// Nodes did not join at `endpoint`. `missing`: their node ranks; empty: they need none.
std::string remedy_of_missing_nodes(const Address& endpoint, const std::vector<int>& missing);

// Nothing that starts the job answered at `endpoint`.
std::string remedy_of_silent_endpoint(const Address& endpoint);

// The node's agent did not run for longer than --node-timeout.
std::string remedy_of_pause(const std::string& host, Duration node_timeout);

// The others wait for `failure.rank`, which runs or is stopped.
std::string remedy_of_hang(const JobSpec& job, const Failure& failure, bool is_stopped);
// How a stopped rank goes on, while the job still waits for it.
std::string remedy_of_stopped_rank(const Failure& failure);

// The GPU of `failure.rank` has not come to the operation in which those of others wait. `is_there`: its
// process still runs.
std::string remedy_of_late_device(const Failure& failure, bool is_there);
// The GPUs of all ranks are in one operation, which does not end. `hosts`: those of the job, each once.
std::string remedy_of_stuck_devices(const std::vector<std::string>& hosts);

// A worker returned 0 while others still needed it.
std::string remedy_of_early_return();
// The same in a program of MPI's.
std::string remedy_of_early_return_from_mpi();

std::string remedy_of_health_check(const std::string& command, const std::string& host);
std::string remedy_of_unkillable(const std::string& host);
std::string remedy_of_killed_helper(const std::string& host);

}  // namespace dlaunch::agent
