// For how long workers may run without a message from their leader, and from when the next world may begin
// without them. Pure. Lease and fence are defined here and nowhere else, both by last_moment().
//
// T is --node-timeout, B = T/4 the time between two heartbeats of a member. Each time is read on one clock
// only; the machines' clocks need about the same rate, not the same time.
//
//   v                          a member sends a heartbeat, which carries v
//   h >= v                     the leader gets it, and answers with v and a grant, at most T
//   v + grant                  if the agent runs, it has killed its workers
//   last_moment(v, grant)      if the agent does not run, its keeper kills them: v + grant + guard
//   ... + death                they are gone
//   last_moment(h, T) + death  the leader may begin a world without that node. This is never earlier, since
//                              h >= v and T >= grant, however long a message was under way or an agent slept.
//
// `guard` lets an agent that runs act before its keeper does. `death` is for what happens after the keeper's
// deadline: its timer (rounded to milliseconds, with the kernel's slack), the time until it is scheduled, the
// time from SIGKILL to the end of the last worker, and two clocks of which one is faster.
//
// A leader that can be replaced must not grant more than it has. Let S be the time until which nobody else
// can lead: of a majority, each has echoed a stamp s of the leader, and S is the least of their s + T; with
// etcd, the end of the leader's own lease. The grant ends at S + B at the latest. (B: an echo comes with the
// next heartbeat, and is that old. Without B a healthy node would have a lease of only T - B.)
//
//   majority: the next leader's majority shares a member with the last one's. That one heard the last leader
//             at k >= s, so last_moment(k + B, T) + death >= last_moment(S, B) + death: then it may begin.
//   etcd:     the next is elected at e >= S: it may begin at last_moment(e, B) + death.
//
// If the other machine's kernel has closed a connection, the agent there has ended, or does not count on this
// one any more. If it has ended, its keeper ends the workers at once: `death` is enough.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::agent {

// What a leader grants a member with each answer to a heartbeat.
struct Grant {
  std::int64_t echo = 0;  // the stamp of the member's last heartbeat or Join, by the member's clock
  Duration lease{};       // from then on
  bool operator==(const Grant&) const = default;
};

class LeaseRules {
 public:
  explicit LeaseRules(Duration node_timeout) : timeout_(node_timeout) {}

  // Without --node-timeout there are no leases, and no world waits for them.
  [[nodiscard]] bool exist() const { return timeout_ > Duration(0); }

  // --- the lease ---

  // What a leader may grant now if it is sure to lead until `sure` (TimePoint::max(): nobody can replace it).
  [[nodiscard]] Duration grant(TimePoint now, TimePoint sure) const {
    if (sure >= now + timeout_) return timeout_;
    return sure + heartbeat_interval() <= now ? Duration(0)
                                              : std::min(timeout_, sure + heartbeat_interval() - now);
  }
  // The keeper lets workers run until then.
  [[nodiscard]] TimePoint last_moment(TimePoint from, Duration granted) const {
    return from + granted + guard();
  }

  // --- the fence: nothing of an earlier world runs from then on ---

  // On a node that the leader heard last at `heard`.
  [[nodiscard]] TimePoint gone_if_silent(TimePoint heard) const {
    return last_moment(heard, timeout_) + death();
  }
  // On a node whose agent has ended: its connection was closed at `closed`.
  [[nodiscard]] TimePoint gone_if_closed(TimePoint closed) const {
    return exist() ? closed + shortest_death : closed;
  }
  // On the last leader's node, and on all nodes that may have got grants from it since, if a member of its
  // majority heard it last at `heard`.
  [[nodiscard]] TimePoint gone_with_leader(TimePoint heard) const {
    return gone_if_silent(heard + heartbeat_interval());
  }
  // The same if another leader was elected at `elected`, after the last leader's lease was over.
  [[nodiscard]] TimePoint gone_if_elected(TimePoint elected) const {
    return last_moment(elected, heartbeat_interval()) + death();
  }
  // No fence is further away.
  [[nodiscard]] Duration longest_fence() const { return gone_with_leader(TimePoint{}) - TimePoint{}; }

  // --- the mark of a leader (agent/process/leader_mark.h) ---

  [[nodiscard]] Duration mark_interval() const { return heartbeat_interval(); }
  // A mark that was refreshed longer ago is of a leader whose leases are all over: the leader may have
  // granted until the next refresh was due, and one interval is for a refresh that was late.
  [[nodiscard]] Duration mark_counts_for() const { return longest_fence() + 2 * mark_interval(); }

 private:
  static constexpr Duration shortest_death = std::chrono::milliseconds(100);

  [[nodiscard]] Duration heartbeat_interval() const { return timeout_ / 4; }
  [[nodiscard]] Duration guard() const { return timeout_ / 8; }
  [[nodiscard]] Duration death() const { return std::max<Duration>(timeout_ / 16, shortest_death); }

  Duration timeout_;
};

}  // namespace dlaunch::agent
