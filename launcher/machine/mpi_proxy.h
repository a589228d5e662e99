// Whose run of MPICH's Hydra this process belongs to: the environment does not name it.
#pragma once

#include <string>

namespace dlaunch::launcher {

// The Hydra process that the nearest of this process's ancestors is, by number and time of start: on one host
// all processes of a run have the same, and no other run does. Empty: none of them is one, or /proc does not
// tell.
std::string hydra_proxy();

}  // namespace dlaunch::launcher
