// Parses the hosts of a job: --hosts, and host files as Open MPI, Hydra, PBS and DeepSpeed have them. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::launcher {

struct HostEntry {
  std::string name;  // "c07", "10.0.0.7", "fe80::7", "alice@c07"
  int slots = 0;     // workers there; 0: the list has no number

  bool operator==(const HostEntry&) const = default;
};

// "a,b:2,c[01-16]:4,alice@d,[fe80::1]:2": in the list's order. The slots of a host that is listed several
// times are added up; an entry without a number counts as one. `name`: the source of the list, for messages:
// "--hosts".
Result<std::vector<HostEntry>> parse_hosts(std::string_view list, const std::string& name);

// One host (or a range of them) per line, as above, or followed by "slots=N"; "max_slots=N" is ignored.
// Comments begin with '#'.
Result<std::vector<HostEntry>> parse_host_file(std::string_view text, const std::string& path);

// The parts of such a list: a comma within brackets does not separate.
std::vector<std::string_view> items_of(std::string_view list);

// Without "alice@".
std::string bare_host(const std::string& name);

}  // namespace dlaunch::launcher
