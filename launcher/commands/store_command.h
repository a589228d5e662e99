// `dlaunch store`: a standalone store server, and a client for one.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

// `arguments`: what follows "dlaunch store". Returns the exit code: 0; 1 if it failed or a key is missing,
// reported in one line on stderr; 2 for a mistake on the command line.
int run_store(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
