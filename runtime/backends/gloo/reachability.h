// How the ranks of a group can be reached: what each says before they connect, and what follows from it.
//
// Why they tell each other before and do not just connect: a rank that misspells an interface, or names
// another number of them, would leave all others waiting for connections that never come. Where some machines
// have IPv6 and others have not, all must take the same. And a machine whose own name means its loopback
// interface (Debian's /etc/hosts gives it 127.0.1.1) cannot know by itself which of its interfaces the others
// can reach; their addresses tell.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/rendezvous/local_address.h"

namespace dlaunch {

struct Reachability {
  std::vector<Addresses> rails;  // one for each network interface in use
  std::string problem;           // why there are none

  bool operator==(const Reachability&) const = default;
};

// One line, without its end.
std::string to_text(const Reachability& reachability);
// What to_text() has written; anything else becomes a Reach with trouble.
Reachability parse_reachability(const std::string& line);

// Why these ranks cannot be connected, and because of which of them. The same on every rank.
struct Disagreement {
  int rank;
  std::string why;
};
std::optional<Disagreement> disagreement(const std::vector<Reachability>& all);

// An address of the rail, of the family in which all connect: that of the first rank which has one that
// others can reach. A rank that has none looks for a way to it. If nobody has one, a loopback address: all
// are on one machine. REQUIRES: there is no disagreement.
std::string rail_address(const std::vector<Reachability>& all, std::size_t rail);

}  // namespace dlaunch
