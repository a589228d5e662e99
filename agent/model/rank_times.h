// How the ranks of this node spend their time, by looks at their pages. Pure.
//
// The time between two looks is divided exactly: its parts add up to it. A rank is in an operation from the
// call to its end. As long as another rank of this host has not come to the same collective, that is waiting.
// Ranks of other hosts are not compared, since their clocks differ: what a rank waits for them counts as
// operation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "agent/model/worker_look.h"
#include "store/base/time.h"

namespace dlaunch::agent {

enum class Spent : std::uint8_t {
  starting,    // until its first operation
  computing,   // in no operation
  operation,   // in a collective or a message
  waiting,     // in a collective, for a rank that has not come
  stopped,     // by SIGSTOP, or a debugger
  unrecorded,  // it runs, but records nothing: the program does not use libdlaunch
};
inline constexpr std::size_t spent_kinds = 6;

// By kind.
struct RankTimes {
  std::array<Duration, spent_kinds> by_kind{};

  [[nodiscard]] Duration& operator[](Spent kind) { return by_kind.at(static_cast<std::size_t>(kind)); }
  [[nodiscard]] Duration operator[](Spent kind) const { return by_kind.at(static_cast<std::size_t>(kind)); }
  [[nodiscard]] Duration total() const;
  // The kind with the longest time; the first of equal ones.
  [[nodiscard]] Spent longest() const;
  RankTimes& operator+=(const RankTimes& more);
  bool operator==(const RankTimes&) const = default;
};

// Between two times of the pages' clock.
struct NanosecondSpan {
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
};

// What a look has shown of a round.
struct SeenOfRound {
  std::map<int, RankTimes> latest;  // what the look added, by rank
  std::set<int> ended{};            // of these ranks it was the last time
  // What earlier looks called unrecorded, and this one knows to be a start; of all ranks.
  Duration recognized_start{};
  // From the round's beginning until a rank called init_process_group, and from then until its first
  // operation or the look; the mean of the ranks that record.
  Duration mean_start{};
  Duration mean_until_first{};
};

class TimesOfRanks {
 public:
  // A round begins: its workers are started now.
  void begin_round(TimePoint now);
  // A worker's first look covers the time since its round began, its last one, which finds that it has ended,
  // that until now. Workers that have not been started get no time. Nor do workers without a record that have
  // ended.
  void look(TimePoint now, const std::vector<WorkerLook>& workers);

  // What the last look added, by rank; ranks that had ended before it are left out.
  [[nodiscard]] const std::map<int, RankTimes>& latest() const { return latest_; }
  // Since the round began.
  [[nodiscard]] const std::map<int, RankTimes>& of_round() const { return of_round_; }
  [[nodiscard]] SeenOfRound seen() const;

 private:
  TimePoint round_began_;
  std::map<int, TimePoint> looked_;  // by rank
  std::set<int> ended_;              // ranks that were found so
  std::set<int> ended_now_;          // by the last look
  // The part of this time that belongs to the worker's start; returns its end.
  std::int64_t note_start(const WorkerLook& worker, NanosecondSpan span, RankTimes& times);

  struct Start {
    bool has_begun = false;  // an operation
    Duration until_joined{};
    Duration until_first{};  // from then
  };

  std::map<int, Start> starts_;  // by rank
  Duration recognized_start_{};
  std::map<int, RankTimes> latest_;
  std::map<int, RankTimes> of_round_;
};

}  // namespace dlaunch::agent
