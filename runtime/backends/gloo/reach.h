// How the ranks of a group can be reached: what each says before they connect, and what follows from it.
//
// Why they tell each other before and do not just connect: a rank that misspells an interface, or names
// another number of them, would leave all others waiting for connections that never come. And a machine whose
// own name means its loopback interface (Debian's /etc/hosts gives it 127.0.1.1) cannot know by itself which
// of its interfaces the others can reach; their addresses tell.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dlaunch {

struct Reach {
  std::vector<std::string> addresses;  // numeric, one for each network interface in use
  std::string trouble;                 // why there are none

  bool operator==(const Reach&) const = default;
};

// One line, without its end.
std::string to_text(const Reach& reach);
// What to_text() has written; anything else becomes a Reach with trouble.
Reach parse_reach(const std::string& line);

// Why these ranks cannot be connected, and because of which of them. The same on every rank.
struct Disagreement {
  int rank;
  std::string why;
};
std::optional<Disagreement> disagreement(const std::vector<Reach>& all);

// What a rank that has only a loopback address is to look for a way to: an address of the first rank that has
// another one. Nothing: all are on one machine.
std::optional<std::string> meeting_address(const std::vector<Reach>& all);

}  // namespace dlaunch
