// Where ranks stand in their groups' collectives: a node's part of it, as it is told to the coordinator.
// Plain values, and how they are made from what the workers' pages say. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agent/model/worker_record.h"
#include "store/base/time.h"
#include "store/contract/worker_page.h"

namespace dlaunch::agent {

// What a worker's process does.
enum class Condition : std::uint8_t {
  runs,
  stopped,  // by SIGSTOP, or a debugger
  ended,
};

struct RankProgress {
  int rank = 0;               // in the job
  std::uint64_t entered = 0;  // the group's last collective that it has entered
  std::uint64_t done = 0;     // and finished, with success
  bool inside = false;        // it waits in one; otherwise the one behind `done`, if entered, has failed
  bool left = false;          // it has destroyed the group
  Condition condition = Condition::runs;
  // Of the collective behind `done`; where it is in none, what else of the group's has not ended (a message,
  // monitored_barrier), the oldest.
  page::Operation operation = page::Operation::none;
  int peer = -1;  // whom that message is from or for, a rank in the job; -1: it is none, any, not known
  bool needs_all = false;   // all members of the group must come to it, though it is no collective
  Duration waited{};        // in it
  std::string how_ended{};  // "returned 0", "was stopped by dlaunch"; empty: it has not, or that is not known

  // The collective that it is in, or failed in.
  [[nodiscard]] bool waits() const { return entered > done; }
  [[nodiscard]] std::uint64_t at() const { return done + 1; }
  [[nodiscard]] bool waits_otherwise() const { return !waits() && operation != page::Operation::none; }

  bool operator==(const RankProgress&) const = default;
};

struct GroupProgress {
  std::uint64_t identity = 0;  // the same on all nodes
  std::string name;
  std::uint32_t size = 0;
  std::vector<page::Run> ranks;    // the members', as far as they are known
  std::vector<RankProgress> here;  // what is known of members, by rank

  bool operator==(const GroupProgress&) const = default;
};

// Of one worker.
struct WorkerSeen {
  WorkerRecord record;
  Condition condition = Condition::runs;
};

// At the time `now_ns` of the pages' clock. Workers that take another world than the job's for theirs have
// ranks of their own and are left out.
std::vector<GroupProgress> collect_group_progress(std::span<const WorkerSeen> workers, int world_size,
                                                  std::int64_t now_ns);

}  // namespace dlaunch::agent
