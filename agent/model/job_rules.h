// What all agents of a job must have been told alike, since any of them may have to decide by it: a quorum
// that they count differently would be none. Pure.
#pragma once

#include <string>

#include "agent/model/job.h"

namespace dlaunch::agent {

// The flags, as one would type them, a line each; always the same lines in the same order.
std::string rules_of(const JobSpec& job);

// "this job has --spares=1, not --spares=0", of the first line that differs; empty where none does.
std::string difference(const std::string& ours, const std::string& theirs);

}  // namespace dlaunch::agent
