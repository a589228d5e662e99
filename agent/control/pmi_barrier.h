// The barriers of a round's MPI programs, as the coordinator sees them: which nodes have come, and what their
// ranks have published since the barrier before (agent/pmi/pmi_server.h). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "agent/control/membership.h"
#include "agent/control/messages.h"
#include "agent/model/pmi_entry.h"

namespace dlaunch::agent {

class PmiBarrier {
 public:
  // A new world, whose values and barriers begin anew.
  void begin(std::uint32_t round) { *this = PmiBarrier(round); }
  // Returns what every node of the world gets; nothing while nodes are missing.
  std::vector<PmiRelease> take(MemberId member, const PmiEnter& enter, const Membership& membership);
  // A rank that has returned 0 while other nodes wait in a barrier, to which it can no longer come. None: no
  // node waits, or all may come.
  [[nodiscard]] std::optional<int> missed_by() const;
  // The nodes have published more than there is room for, and no barrier will be over any more.
  [[nodiscard]] bool is_full() const { return bytes_ > most_pmi_bytes; }

  explicit PmiBarrier(std::uint32_t round = 0) : round_(round) {}

 private:
  std::uint32_t round_;
  std::uint32_t barrier_ = 0;         // the next to be over
  std::set<MemberId> here_;           // the nodes whose ranks are all in it
  std::map<MemberId, int> returned_;  // by node, the first rank that has returned 0
  std::optional<int> missed_by_;      // one of these, if ranks of its own node wait for it
  std::vector<PmiEntry> entries_;
  std::size_t bytes_ = 0;  // of all barriers so far
};

}  // namespace dlaunch::agent
