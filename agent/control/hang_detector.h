// What the nodes of a round have told of where their workers stand, and whether the job hangs. Pure.
//
// It does where every node that has work says that nothing of it has moved for the limit, and a worker of at
// least one of them is inside a collective or waits for other ranks in another way. So a program that
// computes for long between its operations does not hang, however long that takes; one that lets others wait
// for so long does.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/membership.h"
#include "agent/control/messages.h"
#include "agent/model/diagnosis.h"

namespace dlaunch::agent {

class HangDetector {
 public:
  // `limit`: zero: nothing is ever a hang.
  explicit HangDetector(Duration limit) : limit_(limit) {}

  // A new round: nothing is known of it.
  void begin() {
    reports_.clear();
    ends_.clear();
  }
  void take(MemberId member, Progress progress) { reports_[member] = std::move(progress); }
  void forget(MemberId member) { reports_.erase(member); }
  // How a worker ended, in words, where the coordinator knows it sooner than the worker's agent told of it.
  void note_end(int rank, std::string how) { ends_[rank] = std::move(how); }
  // Empty: it has not ended, or nothing is known of that.
  [[nodiscard]] std::string end_of(int rank) const;

  [[nodiscard]] bool hangs(const Membership& membership) const;
  [[nodiscard]] Diagnosis diagnosis() const;
  // Why this is a hang, and who is missing, where that is known. The world tells whose node that is.
  [[nodiscard]] Failure failure(const Diagnosis& diagnosis, const World& world) const;

 private:
  Duration limit_;
  std::map<MemberId, Progress> reports_;  // the last of each
  std::map<int, std::string> ends_;       // by rank
};

}  // namespace dlaunch::agent
