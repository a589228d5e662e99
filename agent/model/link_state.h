// Connections between ranks that do not move, by what the kernel knows of them. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "store/base/time.h"

namespace dlaunch::agent {

// A worker's TCP connection with another rank, as the worker's kernel has it.
struct LinkState {
  int peer = -1;                      // the other rank in the job
  std::uint32_t unacknowledged = 0;   // segments that were sent and not acknowledged
  std::uint32_t unsent = 0;           // bytes that wait in this kernel
  std::uint32_t retransmissions = 0;  // in a row, without an answer
  std::uint32_t probes = 0;           // for room, or of an idle connection; in a row, without an answer
  Duration silent{};                  // since the last acknowledgement
  Duration since_sent{};              // since data were last sent
};

// That does not move, since the other end does not answer, or has no room.
struct StalledLink {
  int peer = -1;  // -1: there is none
  bool is_full = false;
  std::uint32_t retransmissions = 0;  // or probes
  Duration silent{};                  // for how long it has not moved

  bool operator==(const StalledLink&) const = default;
};

// The one that has not moved for the longest time; one that is not answered goes first. `peer` is -1 if all
// move. A lost segment means nothing, so a connection counts only when the kernel has tried several times.
StalledLink worst_link(std::span<const LinkState> links);

}  // namespace dlaunch::agent
