// Which ranks of the job come late to collectives, from what all nodes report (agent/model/arrivals.h). Pure.
//
// A collective that needs all ranks ends when the last one has come: its lateness is the time between its
// arrival and that of the one before, which nobody but it is responsible for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/model/arrival_merge.h"
#include "agent/model/arrivals.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct GroupSpread {
  std::uint64_t collectives = 0;
  Duration spread{};  // from the first rank's arrival to the last one's, added up
};

struct Straggler {
  int rank = -1;
  std::int64_t pid = 0;
  std::string group;            // to whose collectives it came last most often
  std::uint64_t came_last = 0;  // in the window
  std::uint64_t collectives = 0;
  Duration late{};
  Duration window{};

  [[nodiscard]] double share() const;
};
// "rank 2 is slow: in the last 1 min 0 s it came last to 58 of 60 collectives of group default, and the
// others waited 48 s for it alone (80 %)"
std::string describe(const Straggler& straggler);

class Stragglers {
 public:
  // `window`: a note needs so much time.
  explicit Stragglers(Duration window) : window_(window), merge_(window) {}

  // How often a node looks at its ranks, and reports them.
  static constexpr Duration look_period(Duration window) { return window / 30; }
  // `world_size`: other ranks are left out.
  void begin_round(TimePoint now, int world_size);
  // A node's report.
  void add(TimePoint now, const Arrivals& arrivals);

  // The rank that costs the others most, if that is more than 20 % of the window.
  [[nodiscard]] std::optional<Straggler> worst(TimePoint now) const;
  // The same, as of a moment ago: many nodes report, and each is answered.
  const std::optional<Straggler>& recent_worst(TimePoint now);
  // The same, once a rank and round.
  std::optional<Straggler> take_note(TimePoint now);

  // Since the round began.
  [[nodiscard]] const std::map<int, LateRank>& ranks() const { return ranks_; }
  [[nodiscard]] const std::map<std::string, GroupSpread>& groups() const { return groups_; }

 private:
  struct Sum {
    std::uint64_t came_last = 0;
    std::uint64_t seen = 0;  // of these; the others are those that a sample stands for
    Duration late{};
  };
  // What came in one period.
  struct Period {
    TimePoint began;
    std::map<std::string, std::uint64_t> collectives;  // by group
    std::map<std::pair<int, std::string>, Sum> sums;   // by rank and group
  };

  Period& period_at(TimePoint now);
  void count(Period& period, const std::string& group, std::uint64_t collectives, Duration spread);
  void count(Period& period, const std::string& group, const LateRank& late, std::uint64_t seen);

  Duration window_;
  TimePoint began_;
  int world_size_ = 0;
  ArrivalMerge merge_;
  std::deque<Period> recent_;  // of the window
  std::map<int, LateRank> ranks_;
  std::map<std::string, GroupSpread> groups_;
  std::optional<TimePoint> judged_;
  std::optional<Straggler> worst_;  // then
  std::vector<int> noted_;
};

// Counters for Prometheus: by rank and by group.
std::string metrics(const Stragglers& stragglers);

}  // namespace dlaunch::agent
