// A member's knowledge of when its workers must end, and when those of other nodes are gone
// (agent/control/lease.h). Pure.
#pragma once

#include <optional>

#include "agent/control/lease.h"
#include "store/base/time.h"

namespace dlaunch::agent {

class WorkerLease {
 public:
  // Until now another agent may have been on this node, and may have followed a leader.
  WorkerLease(Duration node_timeout, TimePoint now);

  // Without --node-timeout there is no lease.
  [[nodiscard]] bool exists() const { return rules_.exist(); }

  // --- the workers of this node ---

  // A grant of the leader. False: it changes nothing.
  bool take(TimePoint now, const Grant& grant, bool workers_run);
  [[nodiscard]] bool is_granted(TimePoint now) const { return !exists() || now < granted_until_; }
  // The keeper kills the workers then.
  [[nodiscard]] TimePoint last_moment() const { return rules_.last_moment(granted_until_, Duration(0)); }
  // A round begins: the fence was for the workers of an earlier one.
  void begin_round();
  // At each event while workers run: this process may not have run in time.
  void look(TimePoint now) { over_ = over_ || (exists() && now >= last_moment()); }
  // The workers of this round were killed because the agent did not run.
  [[nodiscard]] bool is_over() const { return over_; }

  // --- without a leader ---

  // `silent`: its connection was not closed, and its last message came at `heard`.
  void on_leader_lost(TimePoint now, bool silent, TimePoint heard, bool workers_run);
  // The connection remains, but the coordinator has lost its leadership.
  void on_leader_stepped_down(TimePoint now);
  // The leader waits until the workers here are gone.
  void clear_fence() { fence_at_.reset(); }
  // Then no worker of a round without a coordinator may live.
  [[nodiscard]] std::optional<TimePoint> fence_at() const { return fence_at_; }
  // True once, when that time has come.
  bool take_fence(TimePoint now);
  // For how long workers may still run on the last leader's node, and on others that followed it.
  [[nodiscard]] Duration left_on_leader(TimePoint now) const;
  [[nodiscard]] Duration left_on_others(TimePoint now) const;

 private:
  LeaseRules rules_;
  Duration node_timeout_;
  TimePoint granted_until_;  // the keeper waits a little longer
  bool over_ = false;
  std::optional<TimePoint> fence_at_;
  TimePoint leader_gone_by_;
  TimePoint others_gone_by_;
};

}  // namespace dlaunch::agent
