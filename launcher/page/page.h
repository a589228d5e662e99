// The page of the job's port. The HTML has tables of the job that need no script; the script replaces them
// every two seconds by what /job and /ranks answer, and draws what the ranks did in the last minutes.
//
// Text of the program and of its users (names of jobs and hosts, lines of output) is escaped here, and the
// script only ever sets it as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/model/node_ranks.h"
#include "agent/model/world_view.h"

namespace dlaunch::launcher {

std::string page_html(const agent::WorldView& view, const std::vector<agent::NodeRanks>& nodes);

// The files as they are in the source; page.html has marks in double braces.
extern const std::string_view embedded_page_html;
extern const std::string_view embedded_page_css;
extern const std::string_view embedded_page_js;

}  // namespace dlaunch::launcher
