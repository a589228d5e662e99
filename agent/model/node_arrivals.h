// When the ranks of this node came to collectives, by looks at their pages: what the leader needs to compare
// them with those of other nodes (agent/model/arrivals.h). Pure.
//
// Groups whose ranks are all here are compared here, each collective as soon as all have come. Of other
// groups at most Arrivals::most_samples collectives a look are reported, those with a hash that ends in k
// zero bits. All nodes compute the same hash and choose k by themselves: what the node with the greatest k
// reports the others report, too. The hash keeps a sample from always being the same collective of each step.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/model/arrivals.h"
#include "agent/model/shared_clock.h"
#include "agent/model/worker_record.h"

namespace dlaunch::agent {

class NodeArrivals {
 public:
  // The pages of this node's workers, read one after the other; what they show for the first time.
  // `clock`: without an id there is none.
  Arrivals look(const std::vector<WorkerRecord>& records, const SharedClock& clock);

 private:
  struct Arrival {
    int rank = 0;
    std::int64_t pid = 0;
    std::int64_t came_ns = 0;
    std::int64_t ended_ns = 0;
    Duration since{-1};  // as in ArrivalSample
  };
  struct Group {
    std::string name;
    std::uint32_t size = 0;
    std::size_t members = 0;                                // on this node
    std::map<std::uint64_t, std::vector<Arrival>> pending;  // by sequence number

    [[nodiscard]] bool is_here() const { return members >= size; }
  };
  // The records of a rank that were read.
  struct Seen {
    std::uint64_t next = 0;        // the number of the first record that was not
    std::set<std::uint64_t> open;  // these were, but their operations had not ended
  };
  struct Unsent {
    std::uint64_t collectives = 0;
    Duration spread{};
    std::map<int, LateRank> late;  // by rank
  };

  void find_groups(const std::vector<WorkerRecord>& records);
  void take(const WorkerRecord& record);
  void compare(const Group& group, std::vector<Arrival> arrivals);
  [[nodiscard]] std::vector<ComparedGroup> take_compared();

  std::map<int, Seen> seen_;                // by rank
  std::map<std::uint64_t, Group> groups_;   // by identity
  std::map<std::string, Unsent> compared_;  // by name
};

}  // namespace dlaunch::agent
