// The ranks' progress in the collectives of their groups, as each node reports it to the coordinator. Plain
// values, and how they are made from the workers' pages. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/model/link_state.h"
#include "agent/model/worker_record.h"
#include "store/base/time.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

// The state of a worker's process.
enum class Condition : std::uint8_t {
  runs,
  stopped,  // by SIGSTOP, or a debugger
  ended,
};

struct RankProgress {
  int rank = 0;               // in the job
  std::uint64_t entered = 0;  // the group's last collective that it has entered
  std::uint64_t done = 0;     // the last one that it has finished with success
  bool inside = false;        // it waits in one; otherwise the one after `done`, if entered, has failed
  bool left = false;          // it has destroyed the group
  Condition condition = Condition::runs;
  // The collective after `done`; if it is in none, the group's oldest other operation that has not ended (a
  // message, monitored_barrier).
  page::Operation operation = page::Operation::none;
  // How far the device is, to whose stream the operation was given; not known if it has ended.
  page::Record::OnDevice on_device = page::Record::not_known;
  // The message that the device is in instead, if it has not come to the collective; none: it is in none.
  page::Operation before = page::Operation::none;
  int peer = -1;           // the message's other rank in the job; -1: no message, any rank, or not known
  bool needs_all = false;  // all members of the group must enter it, though it is not a collective
  Duration waited{};       // in it
  // "train.py:42 in step", where it called that operation, or else its last collective; empty: not known.
  std::string call_site{};
  std::string how_ended{};  // "returned 0", "was stopped by dlaunch"; empty: still running, or not known
  // In one of its groups; 0 and empty in the others, or if they are not known.
  std::int64_t pid = 0;
  std::string state{};  // what its main thread does: "is running"; or "waits for the key 'x' of a store",
                        // "waits for the answer of worker ps to 'add'"
  std::string stack{};  // of its main thread, a line a frame, if the coordinator has asked; as the two above
  StalledLink link{};   // its connection with another rank that does not move; also in one group only

  // The collective that it is in, or failed in.
  [[nodiscard]] bool waits() const { return entered > done; }
  [[nodiscard]] std::uint64_t at() const { return done + 1; }
  [[nodiscard]] bool waits_otherwise() const { return !waits() && operation != page::Operation::none; }
  // Other ranks may wait for its device, which still works on what the program gave it before.
  [[nodiscard]] bool is_late_on_device() const {
    return on_device == page::Record::queued && before == page::Operation::none &&
           condition == Condition::runs;
  }

  bool operator==(const RankProgress&) const = default;
};

struct GroupProgress {
  // Not a group, but the ranks that have none: in init_process_group, or not there yet; and those that wait
  // for a key of a store.
  static constexpr std::uint64_t outside = 0;

  std::uint64_t identity = 0;  // the same on all nodes
  std::string name;
  std::uint32_t size = 0;
  std::vector<page::Run> ranks;    // the members' ranks, as far as they are known
  std::vector<RankProgress> here;  // the members' progress, as far as it is known; by rank

  bool operator==(const GroupProgress&) const = default;
};

// The record and state of one worker. It has no groups if there is no page yet.
struct WorkerSeen {
  WorkerRecord record;
  Condition condition = Condition::runs;
  std::string state{};  // as in RankProgress
  std::string stack{};
  StalledLink link{};
};

// The rank in the job of this rank in the group; -1: it is not known, since the runs may not name all
// members.
int rank_in_job(const WorkerRecord::Group& group, int rank);

// If some of these workers are in no group, they follow in one of GroupProgress::outside.
// `now_ns` is the time by the pages' clock. Workers that use another world than the job's are left out,
// because their ranks mean something else.
std::vector<GroupProgress> collect_group_progress(std::span<const WorkerSeen> workers, int world_size,
                                                  std::int64_t now_ns);

}  // namespace dlaunch::agent
