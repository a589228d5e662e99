#include "agent/model/arrival_merge.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dlaunch::agent {
namespace {

constexpr Duration longest_wait = std::chrono::hours(24);
// Differences of such times do not overflow.
constexpr std::int64_t latest_time = std::numeric_limits<std::int64_t>::max() / 4;

bool is_wait(Duration time) { return time >= Duration(0) && time <= longest_wait; }

// A peer may send anything.
bool is_sane(const SampledGroup& group) {
  return group.here > 0 && group.here < group.size && group.stride > 0;
}

bool is_sane(const ArrivalSample& sample) {
  return is_wait(sample.shortest) && sample.next <= longest_wait && sample.since <= longest_wait &&
         is_wait(sample.longest) && sample.sum >= Duration(0) && sample.sum.count() <= latest_time;
}

bool has_clock(const ArrivalSample& sample, std::int64_t error_ns) {
  return error_ns >= 0 && error_ns <= longest_wait.count() && sample.came_ns > 0 &&
         sample.came_ns < latest_time;
}

Duration product(Duration time, std::uint64_t count) {
  const auto factor = static_cast<std::int64_t>(count);
  return time.count() <= latest_time / factor ? time * factor : Duration(latest_time);
}

}  // namespace

std::vector<DecidedCollective> ArrivalMerge::add(TimePoint now, const SampledGroup& group,
                                                 std::int64_t clock_error_ns) {
  std::vector<DecidedCollective> decided;
  forget(now);
  if (!is_sane(group)) return decided;
  for (const ArrivalSample& sample : group.samples) {
    if (!is_sane(sample)) continue;
    const Key key{group.identity, sample.sequence};
    const auto [entry, is_new] = open_.try_emplace(key);
    if (is_new) order_.emplace_back(now, key);
    Collective& collective = entry->second;
    add_to(collective, sample, clock_error_ns);
    collective.stride = std::max(collective.stride, group.stride);
    collective.ranks += group.here;
    if (collective.ranks < group.size) continue;
    // More ranks than it has: a node has reported it twice.
    if (collective.ranks == group.size) decided.push_back(decide(collective));
    open_.erase(entry);
  }
  return decided;
}

void ArrivalMerge::add_to(Collective& collective, const ArrivalSample& sample, std::int64_t clock_error_ns) {
  const bool is_first = collective.ranks == 0;
  const bool came_last = is_first || sample.shortest < collective.shortest;
  collective.next = came_last ? shorter(sample.next, is_first ? Duration(-1) : collective.shortest)
                              : shorter(collective.next, sample.shortest);
  collective.longest = std::max(collective.longest, sample.longest);
  collective.sum = std::min(collective.sum + sample.sum, Duration(latest_time));
  const bool on_clock = has_clock(sample, clock_error_ns);
  if (came_last) {
    collective.last = sample.last;
    collective.pid = sample.pid;
    collective.shortest = sample.shortest;
    collective.since = sample.since;
    collective.last_latest_ns = on_clock ? std::optional(sample.came_ns + clock_error_ns) : std::nullopt;
  }
  if (!on_clock) return;
  const Came came{sample.last, sample.came_ns - clock_error_ns};
  if (!collective.latest || came.earliest_ns > collective.latest->earliest_ns) {
    collective.second = std::exchange(collective.latest, came);
  } else if (!collective.second || came.earliest_ns > collective.second->earliest_ns) {
    collective.second = came;
  }
}

DecidedCollective ArrivalMerge::decide(const Collective& collective) {
  const auto all = [&](Duration time) { return product(time, collective.stride); };
  DecidedCollective decided{collective.last, collective.pid, collective.stride};
  decided.spread = all(collective.longest - collective.shortest);
  const bool is_of_last = collective.latest && collective.latest->last == collective.last;
  const std::optional<Came>& other = is_of_last ? collective.second : collective.latest;
  Duration late = collective.next - collective.shortest;
  if (collective.last_latest_ns && other)
    late = std::min(late, Duration(*collective.last_latest_ns - other->earliest_ns));
  if (late < Duration(0)) {
    decided.last = -1;
    return decided;
  }
  decided.late = all(shorter(late, collective.since));
  decided.waited =
      all(std::max(Duration(0), collective.sum - product(collective.shortest, collective.ranks)));
  return decided;
}

void ArrivalMerge::forget(TimePoint now) {
  while (!order_.empty()) {
    const auto& [opened, key] = order_.front();
    if (opened + patience_ > now && open_.size() < most_open) return;
    open_.erase(key);
    order_.pop_front();
  }
}

}  // namespace dlaunch::agent
