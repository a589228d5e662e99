// `dlaunch store`: a store server by itself, and questions to one.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

// `arguments`: what follows "dlaunch store". Returns the exit code: 0; 1 for what failed or is not there,
// said in one line on stderr; 2 for a mistake on the command line.
int run_store(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
