// For how long workers may run without a word from their leader, and from when the next world may begin
// without them. Pure. Lease and fence are defined here and nowhere else, both by last_moment().
//
// T is --node-timeout, B = T/4 the time between two beats of a member. Each time is read on one clock only;
// the machines' clocks need about the same rate, not the same time.
//
//   v                          a member sends a beat, which carries v
//   h >= v                     the leader hears it, and answers with v and a grant, at most T
//   v + grant                  where the agent moves, it has killed its workers
//   last_moment(v, grant)      where the agent does not move, its keeper kills them: v + grant + guard
//   ... + death                they are gone
//   last_moment(h, T) + death  the leader may begin a world without that node. This is never earlier, since
//                              h >= v and T >= grant, however long a message was under way or an agent slept.
//
// `guard` lets an agent that moves act before its keeper does. `death` is for what happens after the keeper's
// deadline: its timer (rounded to milliseconds, with the kernel's slack), the time until it is scheduled, the
// time from SIGKILL to the end of the last worker, and two clocks of which one is faster.
//
// A leader that can be replaced must not grant more than it has. Let S be the time until which nobody else
// can lead: of a majority, each has echoed a stamp s of the leader, and S is the least of their s + T; with
// etcd, the end of the leader's own lease. The grant ends at S + B at the latest. (B: an echo comes with the
// next beat, and is so old. Without it a healthy node had a lease of T - B.)
//
//   majority: the next leader's majority shares a member with the last one's. That one heard the last leader
//   at
//             k >= s, so last_moment(k + B, T) + death >= last_moment(S, B) + death: then it may begin.
//   etcd:     the next is elected at e >= S: it may begin at last_moment(e, B) + death.
//
// A connection that the other side's kernel has closed means that the agent there has ended, or does not
// count on this one any more. Of an agent that has ended, the keeper ends the workers at once: `death` is
// enough.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::agent {

// What a leader allows a member, with each answer to a beat.
struct Grant {
  std::int64_t echo = 0;  // the stamp of the member's last beat or Join, by the member's clock
  Duration lease{};       // from then on
  bool operator==(const Grant&) const = default;
};

class LeaseRules {
 public:
  explicit LeaseRules(Duration node_timeout) : timeout_(node_timeout) {}

  // Without --node-timeout there are no leases, and nothing is waited for.
  [[nodiscard]] bool exist() const { return timeout_ > Duration(0); }

  // --- the lease ---

  // What a leader may grant now that is sure to lead until `sure` (TimePoint::max(): nobody can replace it).
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
  // On a node whose agent has ended, as its connection shows that was closed at `closed`.
  [[nodiscard]] TimePoint gone_if_closed(TimePoint closed) const {
    return exist() ? closed + shortest_death : closed;
  }
  // On the last leader's node, and on all to which it may have gone on to grant, where a member of its
  // majority heard it last at `heard`.
  [[nodiscard]] TimePoint gone_with_leader(TimePoint heard) const {
    return gone_if_silent(heard + heartbeat_interval());
  }
  // The same, where another was elected at `elected`, since the last leader's lease was over.
  [[nodiscard]] TimePoint gone_if_elected(TimePoint elected) const {
    return last_moment(elected, heartbeat_interval()) + death();
  }
  // No fence is further away.
  [[nodiscard]] Duration longest_fence() const { return gone_with_leader(TimePoint{}) - TimePoint{}; }

 private:
  static constexpr Duration shortest_death = std::chrono::milliseconds(100);

  [[nodiscard]] Duration heartbeat_interval() const { return timeout_ / 4; }
  [[nodiscard]] Duration guard() const { return timeout_ / 8; }
  [[nodiscard]] Duration death() const { return std::max<Duration>(timeout_ / 16, shortest_death); }

  Duration timeout_;
};

}  // namespace dlaunch::agent
