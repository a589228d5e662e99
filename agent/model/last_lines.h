// A worker's last output, as paragraphs for users. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// "the last lines that rank 3 wrote to stderr:", with a bar before each line, so that it does not look like
// one of dlaunch's own; to stdout if it wrote nothing to stderr; and its traceback if stderr does not contain
// that. Empty: it wrote nothing. `is_shown`: the output is on the console already and is left out.
std::vector<std::string> last_lines_of(const Failure& failure, bool is_shown = false);

// These lines are on the screen already, in this order and with nothing in between, each with or without a
// prefix. `screen`: the last output to it.
bool are_shown(std::string_view lines, std::string_view screen);

}  // namespace dlaunch::agent
