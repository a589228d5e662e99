// How a rank begins: it asks the agent for the variables by which PMIx finds its server, and becomes the
// program. Its process stays the same, and has nothing of this in it any more.
#pragma once

namespace dlaunch::agent {

// `words`: the program and its arguments, then a null pointer. Returns the exit code if it could not be
// started.
int start_worker(char** words);

}  // namespace dlaunch::agent
