// Sets of CPUs as the kernel writes them: "0-3,8,10-11".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

using Cpus = std::vector<int>;  // sorted, each once

std::string to_list(const Cpus& cpus);
// Empty text is the empty set. A number larger than any kernel supports is an error, and allocates nothing.
Result<Cpus> parse_cpu_list(std::string_view text);

}  // namespace dlaunch::launcher
