// How the ranks of a group can be reached: what each rank offers before they connect, and what follows.
//
// Why the ranks exchange this first: a rank that misspells an interface, or names another number of them,
// would make all others wait for connections that never come. If only some machines have IPv6, all must use
// the same family. And a machine whose own name means its loopback interface (Debian's /etc/hosts gives it
// 127.0.1.1) cannot know by itself which of its interfaces the others can reach; their addresses show it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/rendezvous/local_address.h"

namespace dlaunch::internal {

struct Reachability {
  std::vector<Addresses> rails;  // one for each network interface in use
  std::string problem;           // why there are none

  bool operator==(const Reachability&) const = default;
};

// One line, without the line end.
std::string to_text(const Reachability& reachability);
// Reads what to_text() has written; anything else becomes a Reachability with a problem.
Reachability parse_reachability(const std::string& line);

// Why these ranks cannot be connected, and because of which ranks. The same on every rank.
struct Disagreement {
  int rank;
  std::string why;
};
std::optional<Disagreement> disagreement(const std::vector<Reachability>& all);

// An address of the rail, in the family in which all connect: that of the first rank with an address that
// others can reach. A rank without one looks for a route to it. If no rank has one, a loopback address: all
// ranks are on one machine. REQUIRES: there is no disagreement.
std::string rail_address(const std::vector<Reachability>& all, std::size_t rail);

}  // namespace dlaunch::internal
