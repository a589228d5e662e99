// What a worker wrote last, as paragraphs for people. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/job.h"

namespace dlaunch::agent {

// "the last lines that rank 3 wrote to stderr:", with each line behind a bar, so that it is not taken for one
// of dlaunch's own; to stdout if it wrote nothing to stderr; the same of its traceback if stderr does not
// have that. Empty: it wrote nothing.
std::vector<std::string> last_lines_of(const Failure& failure);

}  // namespace dlaunch::agent
