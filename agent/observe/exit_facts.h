// Collects what agent/observe/exit_remedy.h needs to know of a worker's host, right after the worker's end.
// Reads limits and small files; the file systems of files that the worker used are only touched if its last
// lines show that one of them answers.
#pragma once

#include <string_view>

#include "agent/observe/exit_remedy.h"

namespace dlaunch::agent {

// Fills in the limits, the core pattern, and what the last lines ask for: the folder of a missing library,
// full file systems. REQUIRES: command and folder are set, if they are known.
void collect_facts(std::string_view last_lines, ExitFacts& facts);

}  // namespace dlaunch::agent
