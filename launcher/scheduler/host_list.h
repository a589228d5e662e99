// Lists of hosts as Slurm writes them: "login1,c[01-03,10]", "rack[1-2]n[1-4]-ib".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

// In the list's order; of several brackets the last runs fastest. Numbers keep their leading zeros; brackets
// may stand in brackets. A list that would give more than `most` names is refused before it is spelled out
// (ErrorKind::limit), one that is not a list names the part that is wrong (ErrorKind::invalid).
Result<std::vector<std::string>> expand_hosts(std::string_view list, std::size_t most = 65'536);

}  // namespace dlaunch::launcher
