// What a node reports of the arrivals of its ranks at collectives, and what it gets back: which of them the
// job waited for. Plain values.
//
// A collective that needs all ranks ends on no node before the last rank has come, and on all nodes soon
// after that. So a node measures back from the first end among its own ranks, by its own clock: the time
// from a rank's arrival until then is that rank's time inside. The rank with the shortest time inside, of all
// nodes, came last; how much longer the next one was inside is how long the others waited for it alone.
//
// Nodes compare what they have of the same collective. Of many collectives each node samples, by a rule that
// makes the samples of one node a part of those of another (agent/model/node_arrivals.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/base/time.h"

namespace dlaunch::agent {

// How a rank kept others waiting.
struct LateRank {
  int rank = -1;
  std::int64_t pid = 0;
  std::uint64_t came_last = 0;  // collectives
  Duration late{};              // that the others would have waited less if it had come with the one before
  Duration waited{};            // all waits of others for it, added up

  bool operator==(const LateRank&) const = default;
};

// A group whose ranks are all on the node, which has compared them by its clock: what is new.
struct ComparedGroup {
  std::string name;
  std::uint64_t collectives = 0;
  Duration spread{};  // from the first rank's arrival to the last one's, added up
  std::vector<LateRank> late{};

  bool operator==(const ComparedGroup&) const = default;
};

// One collective, as this node's ranks have seen it.
struct ArrivalSample {
  std::uint64_t sequence = 0;
  int last = -1;  // the rank of this node that came last
  std::int64_t pid = 0;
  Duration shortest{};       // its time inside
  Duration next{};           // the next shortest of this node; negative: it has no other rank in the group
  Duration longest{};        // of this node
  Duration sum{};            // of this node's ranks
  std::int64_t came_ns = 0;  // when the last one came, by the clock that the nodes share
  // Since it came to the group's collective before. It was late for several at once then, if these run at the
  // same time: that costs the others one delay. Negative: not known.
  Duration since{-1};

  bool operator==(const ArrivalSample&) const = default;
};

// A group with ranks on other nodes, too: collectives that have ended on this node and were not reported yet.
struct SampledGroup {
  std::uint64_t identity = 0;  // the same on all nodes
  std::string name;
  std::uint32_t size = 0;    // its ranks
  std::uint32_t here = 0;    // on this node
  std::uint32_t stride = 1;  // on average one of so many collectives is a sample
  std::vector<ArrivalSample> samples{};

  bool operator==(const SampledGroup&) const = default;
};

// A negative one is not known.
inline Duration shorter(Duration a, Duration b) {
  if (a < Duration(0)) return b;
  return b < Duration(0) || a < b ? a : b;
}

struct Arrivals {
  // In all groups of a report together: 72 bytes a sample, 40 a late rank, up to 80 a group. That is 4 KB for
  // a node whose ranks are in one group with other nodes, and at most 14 KB.
  static constexpr std::size_t most_samples = 64;
  static constexpr std::size_t most_late = 64;
  static constexpr std::size_t most_sampled = 32;

  std::vector<ComparedGroup> compared;
  std::vector<SampledGroup> sampled;
  std::int64_t clock_error_ns = -1;  // of came_ns, at most; negative: there is no shared clock

  [[nodiscard]] bool is_empty() const { return compared.empty() && sampled.empty(); }
  bool operator==(const Arrivals&) const = default;
};

// The same for all nodes but for the ranks, which are the node's own.
struct Lateness {
  std::string straggler;        // a sentence about the rank that costs the others much now; empty: none does
  std::vector<LateRank> ranks;  // since the round began; those that never came last are left out

  bool operator==(const Lateness&) const = default;
};

}  // namespace dlaunch::agent
