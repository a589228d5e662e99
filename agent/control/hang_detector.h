// The progress of the workers as the nodes of a round report it, and whether the job hangs. Pure.
//
// The job hangs if every node with running workers reports that none of them has moved for the limit, and at
// least one worker is in a collective or waits for other ranks in another way: or has polled for a message
// for the whole limit. So a program that computes for
// long between its operations does not hang; a program that lets other ranks wait for so long does.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/membership.h"
#include "agent/control/messages.h"
#include "agent/model/diagnosis.h"
#include "agent/model/event.h"

namespace dlaunch::agent {

class HangDetector {
 public:
  // `limit`: zero: nothing is ever a hang.
  explicit HangDetector(Duration limit) : limit_(limit) {}

  // A new round: nothing is known of it.
  void begin() {
    reports_.clear();
    ends_.clear();
    stacks_.clear();
    records_.clear();
  }
  void take(MemberId member, Progress progress);
  void forget(MemberId member) {
    reports_.erase(member);
    records_.erase(member);
  }
  // Where the ranks of a node are by PyTorch's records. The diagnosis has them until they are forgotten.
  void take_records(MemberId member, std::vector<GroupProgress> groups);
  void forget_records() { records_.clear(); }
  // How a worker ended, as a text, if the coordinator knows it before the worker's agent has reported it.
  void note_end(int rank, std::string how) { ends_[rank] = std::move(how); }
  // Empty: the rank has not ended, or it is not known how.
  [[nodiscard]] std::string end_of(int rank) const;

  [[nodiscard]] bool hangs(const Membership& membership) const {
    return limit_ > Duration(0) && stall(membership, limit_, false) >= limit_;
  }
  // For how long nothing has moved on any node while a rank waits; zero: something moves, no rank waits, or a
  // node has not reported. `polling`: polling for so long is waiting. `with_minor`: so is the wait for the
  // first group, or for a key of a store: another rank may take its time for what it prepares.
  [[nodiscard]] Duration stall(const Membership& membership, Duration polling, bool with_minor) const;
  // For how long no worker of any node has used the CPU or printed anything; zero: one has, or a worker has a
  // page, or a node has not reported.
  [[nodiscard]] Duration idle(const Membership& membership) const;
  // All nodes with running workers have answered since the records were forgotten.
  [[nodiscard]] bool has_all_records(const Membership& membership) const;
  [[nodiscard]] Diagnosis diagnosis() const;
  // The rank is stopped (SIGSTOP, a debugger), by the last report of its node.
  [[nodiscard]] bool is_stopped(int rank) const {
    const RankProgress* const progress = find(rank);
    return progress != nullptr && progress->condition == Condition::stopped;
  }
  // The stack of its main thread, a line a frame, as its node has reported it last; empty: it has not.
  [[nodiscard]] std::string stack_of(int rank) const;
  // Why this is a hang, and the missing rank with its node in `world`, if it is known.
  [[nodiscard]] Failure failure(const Diagnosis& diagnosis, const World& world) const;
  // The same while the job goes on, with the process and the state of the missing rank.
  [[nodiscard]] Event note(const Diagnosis& diagnosis, const World& world, Duration stall) const;
  // What the user can run to check the network of a connection that does not move; empty: nothing.
  [[nodiscard]] static std::string advice_on_link(const Diagnosis& diagnosis, const World& world);

  // What shows more of the GPUs, by which an operation that all ranks have called does not end; empty: it is
  // not known that they are the cause. `is_there`: the workers still run.
  [[nodiscard]] std::string advice_on_devices(const Diagnosis& diagnosis, const World& world,
                                              bool is_there) const;
  // How the missing rank goes on, if it is stopped; empty: it is not, or its process is not known.
  [[nodiscard]] std::string advice_on_stopped(const Diagnosis& diagnosis, const World& world) const;

 private:
  // As its node has reported it, with its process if that is known; nullptr: it is not in any report.
  [[nodiscard]] const RankProgress* find(int rank) const;
  // The rank with its node, its host, and its process as far as that is known.
  [[nodiscard]] Failure placed(int rank, const World& world) const;
  [[nodiscard]] static Failure describe_stall(const std::string& how_long, const Diagnosis& diagnosis,
                                              const World& world);

  struct Records {
    std::vector<GroupProgress> groups;
    Duration idle{};  // of their node, when they came
  };
  [[nodiscard]] Duration idle(MemberId member) const;

  Duration limit_;
  std::map<MemberId, Progress> reports_;  // the last of each
  std::map<MemberId, Records> records_;
  std::map<int, std::string> ends_;    // by rank
  std::map<int, std::string> stacks_;  // by rank
};

}  // namespace dlaunch::agent
