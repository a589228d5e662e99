// Where the time of some ranks went, in rank-seconds: the parts add up to the number of ranks times the time
// since they began. Of one node, or of several together. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "store/base/time.h"

namespace dlaunch::agent {

struct RankTimes;

// Those of a running round are in the order of Spent.
enum class TimeKind : std::uint8_t {
  assembling,  // before the first round
  starting,
  computing,
  operation,
  waiting,
  stopped,
  unrecorded,
  ended,     // of ranks that had returned while others ran
  stopping,  // until all workers of a round are gone
  deciding,  // then, until the next ones are started
  done,      // after all have returned 0, until the job's end
};
inline constexpr std::size_t time_kinds = 11;
// As programs read them.
inline constexpr std::array<std::string_view, time_kinds> time_kind_names{
    "assembling", "starting",     "computing",           "in_operations",    "waiting_for_late_ranks",
    "stopped",    "not_recorded", "ended_before_others", "stopping_workers", "between_rounds",
    "done"};

struct TimeSums {
  int ranks = 0;
  Duration wall{};  // of several nodes: the longest
  std::array<Duration, time_kinds> parts{};

  [[nodiscard]] Duration& operator[](TimeKind kind) { return parts.at(static_cast<std::size_t>(kind)); }
  [[nodiscard]] Duration operator[](TimeKind kind) const { return parts.at(static_cast<std::size_t>(kind)); }
  [[nodiscard]] Duration total() const;
  // The share of the time in which ranks computed or were in operations, or ran without a record.
  [[nodiscard]] double goodput() const;
  // Adds what ranks spent in a running round.
  void add(const RankTimes& times);
  TimeSums& operator+=(const TimeSums& more);
  bool operator==(const TimeSums&) const = default;
};

}  // namespace dlaunch::agent
