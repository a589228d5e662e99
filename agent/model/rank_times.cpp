#include "agent/model/rank_times.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace dlaunch::agent {
namespace {

using Span = NanosecondSpan;

// The arrivals at one collective, of the ranks of this host.
struct Meeting {
  std::size_t came = 0;
  std::int64_t last_ns = 0;
};

// What the ranks of this host know of each other's collectives, in one look.
class Meetings {
 public:
  explicit Meetings(const std::vector<WorkerLook>& workers, std::int64_t from_ns) {
    for (const WorkerLook& worker : workers) {
      if (!worker.record) continue;
      for (const WorkerRecord::Group& group : worker.record->groups) {
        if (group.left) continue;
        Members& members = members_[group.identity];
        ++members.count;
        if (members.count == 1 || group.entered < members.least_entered)
          members.least_entered = group.entered;
      }
      for (const WorkerRecord::Entry& entry : worker.record->entries) note(*worker.record, entry, from_ns);
    }
  }

  // Until when the rank waited in this collective for others of this host; `to_ns`: until now.
  [[nodiscard]] std::int64_t waited_until(const WorkerRecord& record, const WorkerRecord::Entry& entry,
                                          std::int64_t to_ns) const {
    const WorkerRecord::Group* const group = record.group(entry.group);
    if (group == nullptr || !page::is_collective(entry.operation)) return entry.created_ns;
    const auto members = members_.find(group->identity);
    const auto found = meetings_.find({group->identity, entry.sequence});
    if (members == members_.end() || found == meetings_.end()) return entry.created_ns;
    const bool is_awaited = members->second.least_entered < entry.sequence;
    if (is_awaited) return entry.ended_ns == 0 ? to_ns : entry.created_ns;
    return found->second.came == members->second.count ? found->second.last_ns : entry.created_ns;
  }

 private:
  struct Members {
    std::size_t count = 0;            // on this host
    std::uint64_t least_entered = 0;  // the last collective to which all of them have come
  };

  void note(const WorkerRecord& record, const WorkerRecord::Entry& entry, std::int64_t from_ns) {
    const WorkerRecord::Group* const group = record.group(entry.group);
    const bool is_old = entry.ended_ns != 0 && entry.ended_ns < from_ns;
    if (group == nullptr || is_old || !page::is_collective(entry.operation)) return;
    Meeting& meeting = meetings_[{group->identity, entry.sequence}];
    ++meeting.came;
    meeting.last_ns = std::max(meeting.last_ns, entry.created_ns);
  }

  std::map<std::uint64_t, Members> members_;  // by identity of the group
  std::map<std::pair<std::uint64_t, std::uint64_t>, Meeting> meetings_;
};

// The length of the union, within these bounds. `spans` is ordered by the beginnings.
std::int64_t length_of(const std::vector<Span>& spans, Span bounds) {
  std::int64_t length = 0;
  std::int64_t covered = bounds.from_ns;
  for (const Span& span : spans) {
    const std::int64_t from = std::max(covered, span.from_ns);
    const std::int64_t to = std::min(span.to_ns, bounds.to_ns);
    if (to <= from) continue;
    length += to - from;
    covered = to;
  }
  return length;
}

Duration part_of(Duration whole, std::int64_t some, std::int64_t all) {
  if (all <= 0) return Duration(0);
  const double share = static_cast<double>(some) / static_cast<double>(all);
  return std::min(whole, std::chrono::duration_cast<Duration>(share * whole));
}

// The time of a rank that has begun an operation.
RankTimes divide(const WorkerRecord& record, const Meetings& meetings, Span all) {
  std::vector<Span> operations;
  std::vector<Span> waits;
  for (const WorkerRecord::Entry& entry : record.entries) {
    const std::int64_t end = entry.ended_ns == 0 ? all.to_ns : entry.ended_ns;
    if (end <= all.from_ns) continue;
    operations.push_back({entry.created_ns, end});
    const std::int64_t until = std::min(end, meetings.waited_until(record, entry, all.to_ns));
    if (until > entry.created_ns) waits.push_back({entry.created_ns, until});
  }
  if (record.key_since_ns > 0) operations.push_back({record.key_since_ns, all.to_ns});
  std::ranges::sort(operations, {}, &Span::from_ns);
  std::ranges::sort(waits, {}, &Span::from_ns);
  Span seen = all;  // the part of the time that the ring still holds
  const bool is_cut = record.entries.size() >= page::max_records;
  if (is_cut) seen.from_ns = std::clamp(record.entries.front().created_ns, all.from_ns, all.to_ns);
  const Duration whole(all.to_ns - all.from_ns);
  const std::int64_t length = seen.to_ns - seen.from_ns;
  RankTimes times;
  const Duration in_operations = part_of(whole, length_of(operations, seen), length);
  times[Spent::waiting] = std::min(in_operations, part_of(whole, length_of(waits, seen), length));
  times[Spent::operation] = in_operations - times[Spent::waiting];
  times[Spent::computing] = whole - in_operations;
  return times;
}

std::int64_t ns_of(TimePoint time) { return time.time_since_epoch().count(); }

}  // namespace

Duration RankTimes::total() const {
  Duration sum{};
  for (const Duration one : by_kind) sum += one;
  return sum;
}

Spent RankTimes::longest() const {
  return static_cast<Spent>(std::ranges::max_element(by_kind) - by_kind.begin());
}

RankTimes& RankTimes::operator+=(const RankTimes& more) {
  for (std::size_t i = 0; i < by_kind.size(); ++i) by_kind.at(i) += more.by_kind.at(i);
  return *this;
}

void TimesOfRanks::begin_round(TimePoint now) {
  *this = {};
  round_began_ = now;
}

void TimesOfRanks::look(TimePoint now, const std::vector<WorkerLook>& workers) {
  latest_.clear();
  ended_now_.clear();
  recognized_start_ = {};
  std::int64_t earliest = ns_of(now);
  for (const WorkerLook& worker : workers) {
    const auto [looked, is_first] = looked_.try_emplace(worker.rank, round_began_);
    earliest = std::min(earliest, ns_of(looked->second));
  }
  const Meetings meetings(workers, earliest);
  for (const WorkerLook& worker : workers) {
    const TimePoint from = std::exchange(looked_[worker.rank], now);
    if (worker.pid == 0 || now <= from || ended_.contains(worker.rank)) continue;
    if (worker.condition == Condition::ended) {
      ended_.insert(worker.rank);
      if (!worker.record) continue;
      ended_now_.insert(worker.rank);
    }
    Span span{ns_of(from), ns_of(now)};
    RankTimes times;
    if (worker.record) span.from_ns = note_start(worker, span, times);
    const bool has_begun = worker.record && worker.record->first_ns != 0;
    const Duration rest(span.to_ns - span.from_ns);
    if (worker.condition == Condition::stopped) {
      times[Spent::stopped] = rest;
    } else if (has_begun) {
      times += divide(*worker.record, meetings, span);
    } else if (!worker.record) {
      times[Spent::unrecorded] += rest;
    }
    latest_[worker.rank] = times;
    of_round_[worker.rank] += times;
  }
}

std::int64_t TimesOfRanks::note_start(const WorkerLook& worker, NanosecondSpan span, RankTimes& times) {
  Start& start = starts_[worker.rank];
  if (start.has_begun) return span.from_ns;
  const WorkerRecord& record = *worker.record;
  start.has_begun = record.first_ns != 0;
  const std::int64_t first =
      start.has_begun ? std::clamp(record.first_ns, span.from_ns, span.to_ns) : span.to_ns;
  const std::int64_t began = ns_of(round_began_);
  const std::int64_t joined = std::clamp(record.joined_ns, began, first);
  start.until_joined = Duration(joined - began);
  start.until_first = Duration(first - joined);
  RankTimes& sum = of_round_[worker.rank];
  const Duration recognized = std::exchange(sum[Spent::unrecorded], Duration(0));
  sum[Spent::starting] += recognized;
  recognized_start_ += recognized;
  if (!start.has_begun && worker.condition == Condition::stopped) return span.from_ns;
  times[Spent::starting] = Duration(first - span.from_ns);
  return first;
}

SeenOfRound TimesOfRanks::seen() const {
  SeenOfRound seen{latest_, ended_now_, recognized_start_};
  for (const auto& [rank, start] : starts_) {
    seen.mean_start += start.until_joined / static_cast<std::int64_t>(starts_.size());
    seen.mean_until_first += start.until_first / static_cast<std::int64_t>(starts_.size());
  }
  return seen;
}

}  // namespace dlaunch::agent
