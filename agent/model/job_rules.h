// The settings that must be equal on all agents of a job, since any of them may have to decide by them: a
// quorum that agents count differently is none. A Join carries them, and nothing else compares them. Pure.
#pragma once

#include <string>

#include "agent/model/job.h"

namespace dlaunch::agent {

// The flags as a user types them, one a line; always the same lines in the same order.
std::string rules_of(const JobSpec& job);

// "this job has --spares=1, not --spares=0", for the first line that differs; empty: none differs.
std::string difference(const std::string& ours, const std::string& theirs);

// What can be tried then: "start host b with --spares=1, or all others with --spares=0". `host`: the other
// node's. Empty: none differs.
std::string remedy_of_difference(const std::string& ours, const std::string& theirs, const std::string& host);

}  // namespace dlaunch::agent
