// Whether a coordinator may lead the job, and until when it is sure that no other does. Pure.
//
// If the job has several endpoints, the coordinator leads that has the connections of a quorum: more than
// half of all nodes that may take part. With an election (agent/election/election.h) the elected one leads.
// Otherwise there is one coordinator, and it leads from its first moment.
#pragma once

#include <cstdint>
#include <optional>

#include "agent/control/membership.h"
#include "agent/model/fencing.h"
#include "agent/model/job.h"

namespace dlaunch::agent {

class Leadership {
 public:
  // `tokens`: of the worlds that this coordinator will form.
  Leadership(const JobSpec& job, FencingTokens tokens);

  // A quorum of the nodes decides.
  [[nodiscard]] bool is_by_majority() const { return may_move_ && !elected_; }
  // If --nnodes allows fewer nodes, that was logged at the start.
  [[nodiscard]] int quorum() const { return all_nodes_ / 2 + 1; }
  // The coordinator may take up the lead with these members.
  [[nodiscard]] bool may_begin(const Membership& here) const;
  // The other nodes may follow another leader.
  [[nodiscard]] bool too_few(const Membership& here) const;
  // This agent leads by election until then, unless another call moves it; none: it does not lead.
  void set_elected_until(std::optional<TimePoint> until);
  [[nodiscard]] bool is_elected() const { return elected_until_.has_value(); }

  // No other coordinator can lead before then: a node that answered a heartbeat follows until a node timeout
  // after that heartbeat was sent.
  [[nodiscard]] TimePoint sure_until(const Membership& here) const;
  [[nodiscard]] bool is_sure(TimePoint now, const Membership& here) const { return now < sure_until(here); }
  // The same for the leases of thousands of nodes, from a recent computation: while the same nodes are here
  // the value only grows.
  TimePoint granting_until(TimePoint now, const Membership& here);

  // This coordinator takes the lead.
  void begin(TimePoint now);
  void end();
  // When it last took the lead; none: it has led from the start.
  [[nodiscard]] std::optional<TimePoint> since() const { return since_; }
  // A member that joined before may be on its way to another endpoint until it answers.
  [[nodiscard]] bool all_follow(const Membership& here) const;
  void on_announced() { announced_ = true; }
  // A world was announced since this coordinator took the lead.
  [[nodiscard]] bool has_announced() const { return announced_; }

  // --- fencing tokens ---

  [[nodiscard]] FencingTokens& tokens() { return tokens_; }
  [[nodiscard]] const FencingTokens& tokens() const { return tokens_; }
  // A new range of tokens. `announces`: all members get it now; otherwise each gets it with its Welcome.
  void take_range(TimePoint now, bool announces);
  // A world may begin only if all present nodes know the range of its token: so the next leader learns it.
  [[nodiscard]] bool range_is_known(const Membership& here) const;

  // --- fencing of the workers ---

  // From then on another coordinator may lead, and no worker of this world may live.
  void fence_at(TimePoint when) { fence_at_ = when; }
  [[nodiscard]] bool has_fence() const { return fence_at_.has_value(); }
  void clear_fence() { fence_at_.reset(); }
  // True once, when that time has come.
  bool take_fence(TimePoint now);
  // None: no fence is ahead.
  [[nodiscard]] std::optional<TimePoint> next_fence() const;

 private:
  int all_nodes_;
  bool may_move_;
  bool elected_;
  Duration node_timeout_;
  Duration shortest_use_;  // of a computed granting_until_
  FencingTokens tokens_;
  std::optional<TimePoint> range_announced_;
  std::optional<TimePoint> elected_until_;
  std::optional<TimePoint> since_;
  bool announced_ = false;
  std::optional<TimePoint> granting_until_;  // sure_until(), at granting_checked_
  TimePoint granting_checked_;
  std::uint64_t granting_changes_ = 0;  // here.changes() then
  std::optional<TimePoint> fence_at_;   // TimePoint::max(): it was taken
};

}  // namespace dlaunch::agent
