#include "agent/model/stragglers.h"

#include <algorithm>
#include <cmath>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr double noted_share = 0.2;
constexpr std::uint64_t least_often = 5;  // one long wait, for a checkpoint or the data, makes no straggler
constexpr std::size_t most_groups = 64;   // with metrics
constexpr std::size_t most_names = 4096;  // of groups that are counted

// A peer may send anything, and the sum does not overflow.
void add_to(Duration& sum, Duration time) {
  constexpr Duration most = Duration::max() / 4;
  sum = std::min(sum + std::clamp(time, Duration(0), most), most);
}

// Of a metric: names of groups are the program's.
std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

double Straggler::share() const { return to_seconds(late) / std::max(1e-9, to_seconds(window)); }

std::string describe(const Straggler& one) {
  return "rank " + std::to_string(one.rank) + " is slow: in the last " + to_words(one.window) +
         " it came last to " + std::to_string(one.came_last) + " of " + std::to_string(one.collectives) +
         " collectives of group " + one.group + ", and the others waited " + to_words(one.late) +
         " for it alone (" + std::to_string(std::lround(one.share() * 100)) + " %)";
}

void Stragglers::begin_round(TimePoint now, int world_size) {
  *this = Stragglers(window_);
  began_ = now;
  world_size_ = world_size;
}

void Stragglers::add(TimePoint now, const Arrivals& arrivals) {
  Period& period = period_at(now);
  for (const ComparedGroup& group : arrivals.compared) {
    const std::string name = sanitize_for_terminal(group.name);
    count(period, name, group.collectives, group.spread);
    for (const LateRank& late : group.late) count(period, name, late, late.came_last);
  }
  for (const SampledGroup& group : arrivals.sampled) {
    const std::string name = sanitize_for_terminal(group.name);
    for (const DecidedCollective& one : merge_.add(now, group, arrivals.clock_error_ns)) {
      count(period, name, one.collectives, one.spread);
      count(period, name, {one.last, one.pid, one.collectives, one.late, one.waited}, 1);
    }
  }
}

Stragglers::Period& Stragglers::period_at(TimePoint now) {
  while (!recent_.empty() && recent_.front().began < now - window_) recent_.pop_front();
  if (recent_.empty() || recent_.back().began + look_period(window_) <= now) recent_.push_back({now, {}, {}});
  return recent_.back();
}

void Stragglers::count(Period& period, const std::string& group, std::uint64_t collectives, Duration spread) {
  if (groups_.size() >= most_names && !groups_.contains(group)) return;
  period.collectives[group] += collectives;
  GroupSpread& sum = groups_[group];
  sum.collectives += collectives;
  add_to(sum.spread, spread);
}

void Stragglers::count(Period& period, const std::string& group, const LateRank& late, std::uint64_t seen) {
  if (late.rank < 0 || late.rank >= world_size_ || !groups_.contains(group)) return;
  LateRank& rank = ranks_[late.rank];
  rank.rank = late.rank;
  rank.pid = late.pid;
  rank.came_last += late.came_last;
  add_to(rank.late, late.late);
  add_to(rank.waited, late.waited);
  Sum& recent = period.sums[{late.rank, group}];
  recent.came_last += late.came_last;
  recent.seen += seen;
  add_to(recent.late, late.late);
}

std::optional<Straggler> Stragglers::worst(TimePoint now) const {
  if (now - began_ < window_) return std::nullopt;
  std::map<std::string, std::uint64_t> collectives;
  std::map<std::pair<int, std::string>, Sum> sums;
  for (const Period& period : recent_) {
    if (period.began < now - window_) continue;
    for (const auto& [group, number] : period.collectives) collectives[group] += number;
    for (const auto& [who, sum] : period.sums) {
      Sum& total = sums[who];
      total.came_last += sum.came_last;
      total.seen += sum.seen;
      add_to(total.late, sum.late);
    }
  }
  struct Candidate {
    Straggler straggler;
    std::uint64_t seen = 0;  // of came_last
  };
  std::map<int, Candidate> candidates;
  for (const auto& [who, sum] : sums) {
    auto& [one, seen] = candidates[who.first];
    one.late = std::min(one.late + sum.late, window_);
    if (sum.came_last <= one.came_last) continue;
    one.came_last = sum.came_last;
    one.group = who.second;
    seen = sum.seen;
  }
  std::optional<Straggler> found;
  for (auto& [rank, candidate] : candidates) {
    Straggler& one = candidate.straggler;
    one.rank = rank;
    one.pid = ranks_.at(rank).pid;
    one.window = window_;
    one.collectives = collectives[one.group];
    const bool counts = one.share() > noted_share && candidate.seen >= least_often;
    if (counts && (!found || one.late > found->late)) found = one;
  }
  return found;
}

const std::optional<Straggler>& Stragglers::recent_worst(TimePoint now) {
  if (judged_ && now < *judged_ + look_period(window_) / 2) return worst_;
  judged_ = now;
  worst_ = worst(now);
  return worst_;
}

std::optional<Straggler> Stragglers::take_note(TimePoint now) {
  const auto& found = recent_worst(now);
  if (!found || std::ranges::find(noted_, found->rank) != noted_.end()) return std::nullopt;
  noted_.push_back(found->rank);
  return found;
}

std::string metrics(const Stragglers& stragglers) {
  std::string text;
  const auto family = [&text](const std::string& name, const char* help) {
    text += "# HELP " + name + " " + help + "\n# TYPE " + name + " counter\n";
  };
  const auto by_rank = [&](const std::string& name, const char* help, auto value) {
    family(name, help);
    for (const auto& [rank, lateness] : stragglers.ranks())
      text += name + "{rank=\"" + std::to_string(rank) + "\"} " + std::to_string(value(lateness)) + "\n";
  };
  const auto by_group = [&](const std::string& name, const char* help, auto value) {
    family(name, help);
    std::size_t shown = 0;
    for (const auto& [group, spread] : stragglers.groups()) {
      if (++shown > most_groups) break;
      text += name + "{group=\"" + label(group) + "\"} " + std::to_string(value(spread)) + "\n";
    }
  };
  by_rank("dlaunch_rank_last_total", "Collectives to which this rank came last.",
          [](const LateRank& one) { return one.came_last; });
  by_rank("dlaunch_rank_late_seconds_total", "How much later it came to these than the rank before it.",
          [](const LateRank& one) { return to_seconds(one.late); });
  by_rank("dlaunch_rank_awaited_seconds_total", "The waits of all other ranks for it, added up.",
          [](const LateRank& one) { return to_seconds(one.waited); });
  by_group("dlaunch_group_collectives_total", "Collectives in which arrivals were compared.",
           [](const GroupSpread& one) { return one.collectives; });
  by_group("dlaunch_group_arrival_spread_seconds_total", "From the first arrival to the last, added up.",
           [](const GroupSpread& one) { return to_seconds(one.spread); });
  return text;
}

}  // namespace dlaunch::agent
