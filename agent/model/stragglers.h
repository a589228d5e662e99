// Which ranks come late to collectives, from the times at which the ranks of this host came to each. Pure.
//
// A collective that needs all ranks ends when the last one has come: its lateness is the time between its
// arrival and that of the one before, which nobody but it is responsible for. Ranks of other hosts are not
// compared, since their clocks differ.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/worker_record.h"
#include "store/base/time.h"

namespace dlaunch::agent {

// Since the round began.
struct RankLateness {
  std::uint64_t came_last = 0;
  Duration late{};    // that the others would have waited less if it had come with the one before
  Duration waited{};  // all waits of others for it, added up
};
struct GroupSpread {
  std::uint64_t collectives = 0;
  Duration spread{};  // from the first rank's arrival to the last one's, added up
  Duration longest{};
};

struct Straggler {
  int rank = -1;
  std::string group;            // to whose collectives it came last most often
  std::uint64_t came_last = 0;  // in the window
  std::uint64_t collectives = 0;
  Duration late{};
  Duration window{};

  [[nodiscard]] double share() const;
};
// "rank 2 is slow: in the last 1 min 0 s it came last to 58 of 60 collectives of group default, and the
// others waited 48 s for it (80 %)"
std::string describe(const Straggler& straggler);

class Stragglers {
 public:
  explicit Stragglers(Duration window) : window_(window) {}

  [[nodiscard]] Duration period() const { return window_ / 30; }
  void begin_round(TimePoint now);
  // The pages of this host's workers, read one after the other.
  void look(TimePoint now, const std::vector<WorkerRecord>& records);

  // The rank that costs the others most, if that is more than 20 % of the window.
  [[nodiscard]] std::optional<Straggler> worst(TimePoint now) const;
  // The same, once a rank and round.
  std::optional<Straggler> take_note(TimePoint now);

  [[nodiscard]] const std::map<int, RankLateness>& ranks() const { return ranks_; }
  [[nodiscard]] const std::map<std::string, GroupSpread>& groups() const { return groups_; }

 private:
  struct Arrival {
    int rank = 0;
    std::int64_t at_ns = 0;
  };
  struct Group {
    std::string name;
    std::size_t members = 0;                                // on this host
    std::map<std::uint64_t, std::vector<Arrival>> pending;  // by sequence number
  };
  struct Sum {
    std::uint64_t came_last = 0;
    Duration late{};
  };
  struct Look {
    TimePoint when;
    std::map<std::pair<int, std::string>, Sum> sums;  // by rank and group
  };

  void take(const WorkerRecord& record);
  void settle(Group& group, std::vector<Arrival> arrivals);

  Duration window_;
  TimePoint began_;
  std::map<int, std::uint64_t> next_;    // by rank: the number of the first record that has not been seen
  std::map<std::uint64_t, Group> open_;  // by identity
  std::deque<Look> recent_;              // of the window
  std::map<int, RankLateness> ranks_;
  std::map<std::string, GroupSpread> groups_;
  std::vector<int> noted_;
};

// Counters for Prometheus: by rank and by group.
std::string metrics(const Stragglers& stragglers);

}  // namespace dlaunch::agent
