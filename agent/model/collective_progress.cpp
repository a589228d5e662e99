#include "agent/model/collective_progress.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dlaunch::agent {
namespace {

// A stream carries out its operations one after the other: a message that has begun, and waits for another
// rank, keeps the device from those behind it.
void add_device(const WorkerRecord& record, const WorkerRecord::Entry& entry, RankProgress& progress) {
  progress.on_device = entry.on_device;
  if (entry.on_device != page::Record::queued || !page::is_collective(entry.operation)) return;
  const auto message = std::ranges::find_if(record.entries, [](const WorkerRecord::Entry& other) {
    return other.state == page::Record::started && other.on_device == page::Record::begun &&
           page::is_point_to_point(other.operation);
  });
  if (message == record.entries.end()) return;
  progress.before = message->operation;
  const WorkerRecord::Group* const group = record.group(message->group);
  if (group != nullptr) progress.peer = rank_in_job(*group, message->peer);
}

RankProgress standing_of(const WorkerSeen& worker, const WorkerRecord::Group& group, std::int64_t now_ns) {
  RankProgress progress;
  progress.rank = worker.record.rank;
  progress.entered = group.entered;
  progress.done = group.done;
  progress.inside = group.entered > group.ended && worker.condition != Condition::ended;
  progress.left = group.left;
  progress.condition = worker.condition;
  if (!progress.waits()) {
    const WorkerRecord::Entry* const entry = worker.record.open_otherwise(group.id);
    if (entry != nullptr && worker.condition != Condition::ended) {
      progress.operation = entry->operation;
      add_device(worker.record, *entry, progress);
      progress.peer = rank_in_job(group, entry->peer);
      progress.needs_all = entry->operation == page::Operation::monitored_barrier ||
                           (page::is_meeting(entry->operation) && entry->input == group.size);
      progress.waited = between(entry->created_ns, now_ns);
      progress.call_site = worker.record.call_site_of(*entry);
    } else if (const auto* const last = worker.record.collective(group.id, group.entered)) {
      progress.call_site = worker.record.call_site_of(*last);
    }
    return progress;
  }
  if (const WorkerRecord::Entry* entry = worker.record.collective(group.id, progress.at())) {
    progress.operation = entry->operation;
    if (progress.inside) add_device(worker.record, *entry, progress);
    progress.waited = between(entry->created_ns, entry->ended_ns > 0 ? entry->ended_ns : now_ns);
    progress.call_site = worker.record.call_site_of(*entry);
  }
  return progress;
}

bool is_outside(const WorkerSeen& worker) {
  const WorkerRecord& record = worker.record;
  const auto is_left = [](const WorkerRecord::Group& group) { return group.left; };
  return record.forming_ns > 0 || record.key_since_ns > 0 || record.remote.awaited() != nullptr ||
         std::ranges::all_of(record.groups, is_left);
}

std::string state_of(const WorkerSeen& worker) {
  if (worker.condition != Condition::runs) return worker.state;
  if (worker.record.key_since_ns > 0) return "waits for the key '" + worker.record.key + "' of a store";
  const std::string in_calls = describe_state(worker.record.remote);
  return in_calls.empty() ? worker.state : in_calls;
}

RankProgress outside(const WorkerSeen& worker, std::int64_t now_ns) {
  const WorkerRecord& record = worker.record;
  RankProgress progress;
  progress.rank = record.rank;
  progress.condition = worker.condition;
  progress.pid = record.pid;
  progress.state = state_of(worker);
  progress.stack = worker.stack;
  progress.link = worker.link;
  if (worker.condition == Condition::ended) return progress;
  if (record.forming_ns > 0) {
    progress.operation = page::Operation::init_process_group;
    progress.needs_all = true;
    progress.waited = between(record.forming_ns, now_ns);
  } else if (record.key_since_ns > 0) {
    progress.operation = page::Operation::store_wait;
    progress.waited = between(record.key_since_ns, now_ns);
  } else if (const RemoteCall* const call = record.remote.awaited()) {
    progress.operation = page::Operation::remote_call;
    progress.waited = between(call->began_ns, now_ns);
    if (record.remote.id == record.rank) progress.peer = call->peer;  // ids are ranks of the job
  }
  return progress;
}

}  // namespace

int rank_in_job(const WorkerRecord::Group& group, int rank) {
  if (rank < 0) return -1;
  std::int64_t before = 0;
  for (const page::Run& run : group.ranks) {
    if (rank < before + run.count) return static_cast<int>(run.first + run.stride * (rank - before));
    before += run.count;
  }
  return -1;
}

std::vector<GroupProgress> collect_group_progress(std::span<const WorkerSeen> workers, int world_size,
                                                  std::int64_t now_ns) {
  std::vector<GroupProgress> groups;
  std::map<std::uint64_t, std::size_t> places;  // by identity
  GroupProgress without_group{GroupProgress::outside, "", static_cast<std::uint32_t>(world_size), {}, {}};
  for (const WorkerSeen& worker : workers) {
    if (worker.record.world_size != world_size) continue;
    if (is_outside(worker)) without_group.here.push_back(outside(worker, now_ns));
    bool is_first = true;
    for (const WorkerRecord::Group& group : worker.record.groups) {
      const auto [place, is_new] = places.try_emplace(group.identity, groups.size());
      if (is_new) groups.push_back({group.identity, group.name, group.size, group.ranks, {}});
      RankProgress progress = standing_of(worker, group, now_ns);
      if (is_first) {
        progress.pid = worker.record.pid;
        progress.state = state_of(worker);
        progress.stack = worker.stack;
        progress.link = worker.link;
      }
      is_first = false;
      groups[place->second].here.push_back(std::move(progress));
    }
  }
  if (!without_group.here.empty()) groups.push_back(std::move(without_group));
  return groups;
}

}  // namespace dlaunch::agent
