// Decides which rank came last to collectives of groups that span several nodes, from what each node has
// reported of its own ranks (agent/model/arrivals.h). Pure.
//
// The nodes need no common clock. If they have one, it is a second opinion: a collective that moves much data
// may end on one node long before it ends on another, and a rank there was inside for a shorter time though
// it came with the others. So a rank is not held later than the clocks allow, with their errors.
//
// A collective is decided when the reports of all its ranks have come. Those of which a report is lost are
// forgotten after `patience`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/model/arrivals.h"

namespace dlaunch::agent {

// A collective, with those that it stands for.
struct DecidedCollective {
  int last = -1;  // -1: by the clocks, it was not the rank with the shortest time inside
  std::int64_t pid = 0;
  std::uint32_t collectives = 1;
  Duration late{};  // as in LateRank, of all of these
  Duration waited{};
  Duration spread{};  // as in ComparedGroup
};

class ArrivalMerge {
 public:
  // More collectives at a time are not waited for: the oldest are forgotten.
  static constexpr std::size_t most_open = 65'536;

  explicit ArrivalMerge(Duration patience) : patience_(patience) {}

  // What a node reports of a group; the collectives that are decided by that. `clock_error_ns`: as in
  // Arrivals.
  std::vector<DecidedCollective> add(TimePoint now, const SampledGroup& group, std::int64_t clock_error_ns);
  [[nodiscard]] std::size_t open() const { return open_.size(); }

 private:
  // One node's last arrival, and when it was at the earliest, by the shared clock.
  struct Came {
    int last = -1;
    std::int64_t earliest_ns = 0;
  };
  struct Collective {
    std::uint64_t ranks = 0;  // reported so far
    std::uint32_t stride = 1;
    int last = -1;
    std::int64_t pid = 0;
    Duration shortest{};
    Duration since{-1};  // of the last one, as in ArrivalSample
    Duration next{};
    Duration longest{};
    Duration sum{};
    std::optional<std::int64_t> last_latest_ns{};  // of `last`
    // The two with the greatest earliest_ns: the latest of a node other than `last`'s is among them.
    std::optional<Came> latest{};
    std::optional<Came> second{};
  };
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // the group's identity, the sequence number

  static void add_to(Collective& collective, const ArrivalSample& sample, std::int64_t clock_error_ns);
  static DecidedCollective decide(const Collective& collective);
  void forget(TimePoint now);

  Duration patience_;
  std::map<Key, Collective> open_;
  std::deque<std::pair<TimePoint, Key>> order_;  // when each was opened; also of those that are decided
};

}  // namespace dlaunch::agent
