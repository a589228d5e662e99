// What a worker wrote last, as paragraphs for people. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// "the last lines that rank 3 wrote to stderr:", with each line behind a bar, so that it is not taken for one
// of dlaunch's own; to stdout if it wrote nothing to stderr; the same of its traceback if stderr does not
// have that. Empty: it wrote nothing.
// `is_shown`: what stands on the console need not be said again.
std::vector<std::string> last_lines_of(const Failure& failure, bool is_shown = false);

// Whether these lines stand on the screen already, in this order and with nothing in between, each behind a
// prefix or none. `screen`: what was written last.
bool are_shown(std::string_view lines, std::string_view screen);

}  // namespace dlaunch::agent
