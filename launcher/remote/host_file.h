// The hosts of a job as people list them: --hosts, and files as Open MPI's, Hydra's, PBS's and DeepSpeed's.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

struct HostEntry {
  std::string name;  // "c07", "10.0.0.7", "fe80::7", "alice@c07"
  int slots = 0;     // workers there; 0 where the list does not say

  bool operator==(const HostEntry&) const = default;
};

// "a,b:2,c[01-16]:4,alice@d,[fe80::1]:2": in the list's order. A host that is named again has the sum of its
// slots, each mention without a number counting as one. `name` is where the list came from, as a person finds
// it again: "--hosts".
Result<std::vector<HostEntry>> parse_hosts(std::string_view list, const std::string& name);

// One host (or a range of them) a line, as above, or with "slots=N" behind it; "max_slots=N" has no meaning
// here. What follows a '#' is a comment.
Result<std::vector<HostEntry>> parse_host_file(std::string_view text, const std::string& path);

// Without "alice@".
std::string bare_host(const std::string& name);

}  // namespace dlaunch::launcher
