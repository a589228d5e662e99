// From when nothing of an earlier world runs any more, so that the next world may begin
// (agent/control/lease.h). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/control/fenced_hosts.h"
#include "agent/control/leadership.h"
#include "agent/control/lease.h"
#include "agent/control/membership.h"
#include "agent/model/job.h"

namespace dlaunch::agent {

class EarlierWorlds {
 public:
  // `began`: when this coordinator was started. `had_predecessor`: an earlier one led the job at this
  // endpoint, and may have left workers (agent/process/leader_mark.h). What the members know counts in either
  // case.
  EarlierWorlds(const JobSpec& job, TimePoint began, bool had_predecessor = false);

  // A node is gone, and has not reported that its workers are. `silent`: its connection was not closed.
  void on_left_running(TimePoint now, const Membership::Node& node, bool silent);
  // The agent is back, and reports itself when its workers are gone.
  void on_returned(AgentId agent) { left_running_.erase(agent); }
  // A world begins: what it had to wait for is gone.
  void on_world() { left_running_.clear(); }

  // Costs nothing as long as the same nodes are here.
  [[nodiscard]] TimePoint gone_by(const Membership& here, const Leadership& leadership);
  // Workers of lost nodes may still run.
  [[nodiscard]] bool may_run(TimePoint now) const;
  // Addresses of lost nodes where workers may run yet.
  [[nodiscard]] std::set<std::string> blocked_hosts(const Membership& here, TimePoint now) {
    return fenced_hosts_.without(here, now);
  }

 private:
  struct LastWorld;
  // What others_gone_by() depends on, and what it returned.
  struct Computed {
    std::uint64_t changes;
    std::optional<TimePoint> since;
    TimePoint gone;
  };
  [[nodiscard]] TimePoint others_gone_by(const Membership& here, const Leadership& leadership) const;
  [[nodiscard]] TimePoint leases_over_by(const Membership& here, const LastWorld& last,
                                         bool enough_remember) const;

  LeaseRules leases_;
  TimePoint began_;
  int nnodes_;
  int all_nodes_;
  bool may_move_;
  bool elected_;
  bool had_predecessor_;
  FencedHosts fenced_hosts_;
  std::optional<Computed> computed_;
  std::map<AgentId, TimePoint> left_running_;  // agents that were lost with their workers: gone by then
};

}  // namespace dlaunch::agent
