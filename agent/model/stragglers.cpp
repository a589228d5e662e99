#include "agent/model/stragglers.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace dlaunch::agent {
namespace {

constexpr double noted_share = 0.2;
constexpr std::uint64_t least_often = 5;  // one long wait, for a checkpoint or the data, makes no straggler
constexpr std::size_t most_pending = 4096;
constexpr std::size_t most_groups = 64;

// Of a metric: names of groups are the program's.
std::string label(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// In a broadcast, say, only the source keeps the others waiting.
bool needs_all(page::Operation operation) {
  constexpr std::array all{page::Operation::all_reduce,
                           page::Operation::all_gather,
                           page::Operation::all_gather_into_tensor,
                           page::Operation::reduce_scatter,
                           page::Operation::reduce_scatter_tensor,
                           page::Operation::all_to_all,
                           page::Operation::all_to_all_single,
                           page::Operation::barrier,
                           page::Operation::all_reduce_coalesced};
  return std::ranges::find(all, operation) != all.end();
}

}  // namespace

double Straggler::share() const { return to_seconds(late) / std::max(1e-9, to_seconds(window)); }

std::string describe(const Straggler& one) {
  return "rank " + std::to_string(one.rank) + " is slow: in the last " + to_words(one.window) +
         " it came last to " + std::to_string(one.came_last) + " of " + std::to_string(one.collectives) +
         " collectives of group " + one.group + ", and the others waited " + to_words(one.late) +
         " for it alone (" + std::to_string(std::lround(one.share() * 100)) + " %)";
}

void Stragglers::begin_round(TimePoint now) { *this = Stragglers(window_), began_ = now; }

void Stragglers::look(TimePoint now, const std::vector<WorkerRecord>& records) {
  for (auto& [identity, group] : open_) group.members = 0;
  for (const WorkerRecord& record : records) {
    for (const WorkerRecord::Group& group : record.groups) {
      if (group.left) continue;
      Group& known = open_[group.identity];
      known.name = group.name;
      ++known.members;
    }
  }
  std::erase_if(open_, [](const auto& entry) { return entry.second.members < 2; });
  for (const WorkerRecord& record : records) take(record);
  recent_.push_back({now, {}});
  for (auto& [identity, group] : open_) {
    for (auto at = group.pending.begin(); at != group.pending.end();) {
      const bool is_whole = at->second.size() == group.members;
      if (is_whole) settle(group, std::move(at->second));
      at = is_whole ? group.pending.erase(at) : std::next(at);
    }
    // Of these, a record was overwritten before it was seen.
    while (group.pending.size() > most_pending) group.pending.erase(group.pending.begin());
  }
  while (recent_.front().when < now - window_) recent_.pop_front();
}

void Stragglers::take(const WorkerRecord& record) {
  std::uint64_t& next = next_[record.rank];
  for (const WorkerRecord::Entry& entry : record.entries) {
    if (entry.number < next || !needs_all(entry.operation)) continue;
    const WorkerRecord::Group* const group = record.group(entry.group);
    const auto known = group != nullptr ? open_.find(group->identity) : open_.end();
    if (known == open_.end()) continue;
    known->second.pending[entry.sequence].push_back({record.rank, entry.created_ns});
  }
  if (!record.entries.empty()) next = std::max(next, record.entries.back().number + 1);
}

void Stragglers::settle(Group& group, std::vector<Arrival> arrivals) {
  std::ranges::sort(arrivals, {}, &Arrival::at_ns);
  const Arrival& last = arrivals.back();
  const Duration late = between(arrivals[arrivals.size() - 2].at_ns, last.at_ns);
  const Duration spread = between(arrivals.front().at_ns, last.at_ns);
  RankLateness& rank = ranks_[last.rank];
  ++rank.came_last;
  rank.late += late;
  for (const Arrival& other : arrivals) rank.waited += between(other.at_ns, last.at_ns);
  GroupSpread& sum = groups_[group.name];
  ++sum.collectives;
  sum.spread += spread;
  sum.longest = std::max(sum.longest, spread);
  Sum& recent = recent_.back().sums[{last.rank, group.name}];
  ++recent.came_last;
  recent.late += late;
}

std::optional<Straggler> Stragglers::worst(TimePoint now) const {
  if (now - began_ < window_) return std::nullopt;
  std::map<int, Straggler> sums;
  std::map<std::string, std::uint64_t> collectives;
  std::map<std::pair<int, std::string>, std::uint64_t> last_in;
  for (const Look& look : recent_) {
    for (const auto& [who, sum] : look.sums) {
      collectives[who.second] += sum.came_last;
      last_in[who] += sum.came_last;
      sums[who.first].late += sum.late;
    }
  }
  for (const auto& [who, count] : last_in) {
    Straggler& sum = sums[who.first];
    if (count <= sum.came_last) continue;
    sum.came_last = count;
    sum.group = who.second;
  }
  std::optional<Straggler> found;
  for (auto& [rank, sum] : sums) {
    sum.rank = rank;
    sum.window = window_;
    sum.collectives = collectives[sum.group];
    const bool counts = sum.share() > noted_share && sum.came_last >= least_often;
    if (counts && (!found || sum.late > found->late)) found = sum;
  }
  return found;
}

std::optional<Straggler> Stragglers::take_note(TimePoint now) {
  auto found = worst(now);
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
  by_rank("dlaunch_rank_last_total", "Collectives to which this rank of this node came last.",
          [](const RankLateness& one) { return one.came_last; });
  by_rank("dlaunch_rank_late_seconds_total", "How much later it came to these than the rank before it.",
          [](const RankLateness& one) { return to_seconds(one.late); });
  by_rank("dlaunch_rank_awaited_seconds_total", "The waits of all other ranks of this node for it, added up.",
          [](const RankLateness& one) { return to_seconds(one.waited); });
  by_group("dlaunch_group_collectives_total", "Collectives in which arrivals were compared.",
           [](const GroupSpread& one) { return one.collectives; });
  by_group("dlaunch_group_arrival_spread_seconds_total", "From the first arrival to the last, added up.",
           [](const GroupSpread& one) { return to_seconds(one.spread); });
  return text;
}

}  // namespace dlaunch::agent
