// How two agents lost their connection. Decisions go by the kind alone; the text is for people. Pure.
#pragma once

#include <string>

namespace dlaunch::agent {

enum class LossKind {
  closed,    // by the kernel of the other machine: the agent there has ended, or let go of the connection
  broken,    // it was reset, or none came up
  silent,    // nothing came in time
  cut,       // by this side, for a reason of its own
  released,  // the other agent let go of this one, or is back already
};

struct Loss {
  LossKind kind = LossKind::broken;
  std::string why;

  // The other agent has neither ended nor let go, as far as is known: its workers may run until their leases
  // end.
  [[nodiscard]] bool other_may_go_on() const { return kind == LossKind::silent || kind == LossKind::cut; }
};

// Why an agent was lost.
inline std::string describe(const Loss& loss) {
  switch (loss.kind) {
    case LossKind::closed:
      return "its dlaunch ended without notice: it was killed, or its machine restarted";
    case LossKind::silent:
      return loss.why + " (--node-timeout): its machine is off or frozen, or the network to it is cut";
    case LossKind::broken:
    case LossKind::cut:
    case LossKind::released:
      break;
  }
  return loss.why;
}

// What the user can try after that loss. `peer`: the agent's host or endpoint. Empty: the agents let go of
// each other on purpose.
inline std::string remedy_of(const Loss& loss, const std::string& peer) {
  switch (loss.kind) {
    case LossKind::closed:
      return "look at the terminal of dlaunch on " + peer + ", and at dmesg and journalctl there";
    case LossKind::silent:
    case LossKind::broken:
      return "dlaunch doctor --peer=" + peer;
    case LossKind::cut:
    case LossKind::released:
      break;
  }
  return "";
}

}  // namespace dlaunch::agent
