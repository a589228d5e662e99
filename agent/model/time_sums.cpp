#include "agent/model/time_sums.h"

#include <algorithm>

#include "agent/model/rank_times.h"

namespace dlaunch::agent {
namespace {

constexpr auto first_of_round = static_cast<std::size_t>(TimeKind::starting);

static_assert(first_of_round + static_cast<std::size_t>(Spent::waiting) ==
                  static_cast<std::size_t>(TimeKind::waiting) &&
              first_of_round + static_cast<std::size_t>(Spent::unrecorded) ==
                  static_cast<std::size_t>(TimeKind::unrecorded));

}  // namespace

Duration TimeSums::total() const {
  Duration sum{};
  for (const Duration part : parts) sum += part;
  return sum;
}

double TimeSums::goodput() const {
  const Duration good =
      (*this)[TimeKind::computing] + (*this)[TimeKind::operation] + (*this)[TimeKind::unrecorded];
  return total() > Duration(0) ? to_seconds(good) / to_seconds(total()) : 0;
}

void TimeSums::add(const RankTimes& times) {
  for (std::size_t i = 0; i < spent_kinds; ++i) parts.at(first_of_round + i) += times.by_kind.at(i);
}

TimeSums& TimeSums::operator+=(const TimeSums& more) {
  ranks += more.ranks;
  wall = std::max(wall, more.wall);
  for (std::size_t i = 0; i < time_kinds; ++i) parts.at(i) += more.parts.at(i);
  return *this;
}

}  // namespace dlaunch::agent
