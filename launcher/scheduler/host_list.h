// Lists of hosts as Slurm writes them: "login1,c[01-03,10]", "rack[1-2]n[1-4]-ib".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Names in the list's order; of several brackets, the last varies fastest. Numbers keep their leading zeros;
// brackets may be nested. A list of more than `most` names is rejected before it is expanded
// (ErrorKind::limit). The error for a malformed list names the wrong part (ErrorKind::invalid).
Result<std::vector<std::string>> expand_hosts(std::string_view list, std::size_t most = 65'536);

}  // namespace dlaunch::launcher
