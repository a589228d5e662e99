// What the end of a connection between two agents says, for people. Pure.
#pragma once

#include <string>

namespace dlaunch::agent {

// `why`: as the network or the clock tells it; `silent`: nothing came any more. `host`: the other one's.
inline std::string describe_loss(const std::string& why, bool silent, const std::string& host) {
  if (silent)
    return why +
           " (--node-timeout): its machine is off or does not run, or the network to it is cut; try "
           "dlaunch doctor --peer=" +
           host;
  if (why == "closed by the peer")
    return "its dlaunch ended without a word: it was killed, or its machine was restarted; see its own "
           "screen, and dmesg and journalctl there";
  return why;
}

}  // namespace dlaunch::agent
