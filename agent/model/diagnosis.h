// Turns the progress of all ranks into sentences for users: which rank has not entered which collective, and
// which rank waits for which. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

// What rank `from` sends to rank `link.peer` does not get there.
struct LinkStall {
  int from = -1;
  StalledLink link{};
  bool both_ways = false;  // nor in the other direction
};

struct Diagnosis {
  static constexpr std::size_t max_sentences = 8;

  // "rank 3 never entered all_reduce #4182 of group default; the other 7 have waited 31 s": one sentence for
  // each group in which a rank waits, the likely cause first. "rank 3 has not entered ... yet" if none has
  // waited for a tenth of a second and the missing rank runs. If no rank waits in a collective, the other
  // operations: "ranks 0 and 1 have been in monitored_barrier of group default for 5 s; rank 2 has not
  // come", "rank 1 has been in recv from rank 0 of group default for 5 s". Empty: no rank waits.
  // If all ranks have called it and their devices differ: "rank 3 has called all_reduce #12 of group default,
  // but its GPU has not come to it: ...".
  std::vector<std::string> sentences;
  // The ranks that others wait for and that do not wait themselves; empty: there are none, or none is known.
  std::vector<int> missing;
  // What the ranks' devices show of the first sentence's operation, if all ranks have called it.
  enum class Devices : std::uint8_t {
    not_known,
    some_late,  // that of the first of `missing` has not come to it, and others wait in it
    all_in_it,
  };
  Devices devices = Devices::not_known;
  // Of the connections between ranks that do not move: the one that is not answered for the longest time.
  // None: all move, or it is not known.
  std::optional<LinkStall> link{};
};

// `group_progress` comes from all nodes that have reported; groups with the same identity are merged. A group
// that all its members have left counts only if no rank waits in another group.
Diagnosis diagnose(std::vector<GroupProgress> group_progress);

}  // namespace dlaunch::agent
