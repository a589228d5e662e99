#include "agent/model/node_arrivals.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <utility>

namespace dlaunch::agent {
namespace {

constexpr std::size_t most_pending = 4096;

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

// The finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// 2014).
std::uint64_t hash_of(std::uint64_t identity, std::uint64_t sequence) {
  std::uint64_t bits = identity + sequence * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

void thin_out(SampledGroup& group, std::size_t most) {
  constexpr std::uint32_t greatest = 1U << 20U;
  while (group.samples.size() > most && group.stride < greatest) {
    group.stride *= 2;
    std::erase_if(group.samples, [&](const ArrivalSample& sample) {
      return hash_of(group.identity, sample.sequence) % group.stride != 0;
    });
  }
}

}  // namespace

Arrivals NodeArrivals::look(const std::vector<WorkerRecord>& records, const SharedClock& clock) {
  find_groups(records);
  for (const WorkerRecord& record : records) take(record);
  Arrivals arrivals;
  if (clock.id != 0) arrivals.clock_error_ns = clock.error_ns;
  const auto sample_of = [&](std::uint64_t sequence, const std::vector<Arrival>& ranks) {
    const std::int64_t end = std::ranges::min(ranks, {}, &Arrival::ended_ns).ended_ns;
    ArrivalSample sample{sequence, ranks.back().rank, ranks.back().pid};
    sample.shortest = between(ranks.back().came_ns, end);
    sample.longest = between(ranks.front().came_ns, end);
    sample.next = ranks.size() < 2 ? Duration(-1) : between(ranks[ranks.size() - 2].came_ns, end);
    for (const Arrival& one : ranks) sample.sum += between(one.came_ns, end);
    // Of a page any value may come.
    sample.came_ns = static_cast<std::int64_t>(static_cast<std::uint64_t>(ranks.back().came_ns) +
                                               static_cast<std::uint64_t>(clock.unix_minus_steady_ns));
    sample.since = ranks.back().since;
    return sample;
  };
  for (auto& [identity, group] : groups_) {
    SampledGroup sampled{identity, group.name, group.size, static_cast<std::uint32_t>(group.members)};
    for (auto at = group.pending.begin(); at != group.pending.end();) {
      const bool is_whole = at->second.size() == group.members;
      if (is_whole) {
        std::ranges::sort(at->second, {}, &Arrival::came_ns);
        group.is_here() ? compare(group, at->second)
                        : sampled.samples.push_back(sample_of(at->first, at->second));
      }
      at = is_whole ? group.pending.erase(at) : std::next(at);
    }
    // Of these, a record was overwritten before it was seen.
    while (group.pending.size() > most_pending) group.pending.erase(group.pending.begin());
    const bool has_room = arrivals.sampled.size() < Arrivals::most_sampled;
    if (!sampled.samples.empty() && has_room) arrivals.sampled.push_back(std::move(sampled));
  }
  for (SampledGroup& group : arrivals.sampled)
    thin_out(group, Arrivals::most_samples / arrivals.sampled.size());
  std::erase_if(arrivals.sampled, [](const SampledGroup& group) { return group.samples.empty(); });
  arrivals.compared = take_compared();
  return arrivals;
}

void NodeArrivals::find_groups(const std::vector<WorkerRecord>& records) {
  for (auto& [identity, group] : groups_) group.members = 0;
  for (const WorkerRecord& record : records) {
    for (const WorkerRecord::Group& group : record.groups) {
      if (group.left || group.size < 2) continue;
      Group& known = groups_[group.identity];
      known.name = group.name;
      known.size = group.size;
      ++known.members;
    }
  }
  std::erase_if(groups_, [](const auto& entry) { return entry.second.members == 0; });
}

void NodeArrivals::take(const WorkerRecord& record) {
  if (record.entries.empty()) return;
  Seen& seen = seen_[record.rank];
  seen.open.erase(seen.open.begin(), seen.open.lower_bound(record.entries.front().number));
  std::map<std::uint32_t, std::int64_t> came;  // latest, by group
  for (const WorkerRecord::Entry& entry : record.entries) {
    if (!needs_all(entry.operation)) continue;
    const auto [before, is_first] = came.try_emplace(entry.group, entry.created_ns);
    const Duration since =
        is_first ? Duration(-1) : between(std::exchange(before->second, entry.created_ns), entry.created_ns);
    if (entry.number < seen.next && seen.open.erase(entry.number) == 0) continue;
    const WorkerRecord::Group* const group = record.group(entry.group);
    const auto known = group != nullptr ? groups_.find(group->identity) : groups_.end();
    if (known == groups_.end()) continue;
    if (!known->second.is_here()) {
      if (entry.state == page::Record::started) seen.open.insert(entry.number);
      if (entry.state != page::Record::completed) continue;
    }
    known->second.pending[entry.sequence].push_back(
        {record.rank, record.pid, entry.created_ns, entry.ended_ns, since});
  }
  seen.next = std::max(seen.next, record.entries.back().number + 1);
}

void NodeArrivals::compare(const Group& group, std::vector<Arrival> arrivals) {
  const Arrival& last = arrivals.back();
  Unsent& sum = compared_[group.name];
  ++sum.collectives;
  sum.spread += between(arrivals.front().came_ns, last.came_ns);
  LateRank& rank = sum.late[last.rank];
  rank.rank = last.rank;
  rank.pid = last.pid;
  ++rank.came_last;
  rank.late += shorter(between(arrivals[arrivals.size() - 2].came_ns, last.came_ns), last.since);
  for (const Arrival& other : arrivals) rank.waited += between(other.came_ns, last.came_ns);
}

// The latest ranks first: what is left waits for the next look.
std::vector<ComparedGroup> NodeArrivals::take_compared() {
  while (compared_.size() > most_pending) compared_.erase(compared_.begin());
  std::vector<Duration> all;
  for (const auto& [name, group] : compared_) {
    for (const auto& [rank, late] : group.late) all.push_back(late.late);
  }
  Duration least{0};
  if (all.size() > Arrivals::most_late) {
    std::ranges::nth_element(all, all.begin() + Arrivals::most_late - 1, std::greater{});
    least = all[Arrivals::most_late - 1];
  }
  std::vector<ComparedGroup> taken;
  std::size_t room = Arrivals::most_late;
  for (auto& [name, group] : compared_) {
    ComparedGroup sent{name, group.collectives, group.spread, {}};
    std::erase_if(group.late, [&](const auto& entry) {
      if (entry.second.late < least || room == 0) return false;
      --room;
      sent.late.push_back(entry.second);
      return true;
    });
    if (sent.late.empty()) continue;
    group.collectives = 0;
    group.spread = Duration(0);
    taken.push_back(std::move(sent));
  }
  std::erase_if(compared_, [](const auto& entry) { return entry.second.late.empty(); });
  return taken;
}

}  // namespace dlaunch::agent
