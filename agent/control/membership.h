// Who has joined the job, who of them runs, and in which seats. Pure.
//
// A node keeps its seat for as long as it stays; ranks follow the seats. So those who stay keep their order,
// and a node that takes a dead one's place takes its ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "agent/control/messages.h"

namespace dlaunch::agent {

// Names a member's connection.
using MemberId = std::uint32_t;
inline constexpr MemberId local_member = 0;  // the one in the coordinator's own process

class Membership {
 public:
  struct Node {
    Join joined;
    std::string address;  // where it comes from, without port; empty: this process
    std::uint64_t arrival = 0;
    TimePoint came;        // when its Join was heard
    TimePoint last_heard;  // when it last said something
    std::int64_t own = 0;  // its clock, as it said last
    TimePoint echoed{};    // when that was said which it last answered: it follows until a node timeout after
    int sticky_rank = -1;  // -1: none yet
    int index = -1;        // in the world's members; -1: not active
    bool active = false;   // in the current round
    bool leaving = false;  // in no later one
    bool done = false;     // its workers of the current round have all returned 0
    bool stopped = true;   // nothing of any round is left there

    // In the world, or the one that it wants; -1: any.
    [[nodiscard]] int rank() const { return index >= 0 ? index : joined.node_rank; }
  };

  Node& add(MemberId member, Join join, std::string address, TimePoint now);
  // What it was; none: it had not joined.
  std::optional<Node> remove(MemberId member);
  Node* find(MemberId member);

  // How many may be in the next round.
  [[nodiscard]] int ready() const;
  // Of these: that stay where they are though nobody leads there.
  [[nodiscard]] int staying() const;
  // All of these have answered what was said at `since` or later.
  [[nodiscard]] bool all_have_answered(TimePoint since) const;
  // Nothing runs that a new round would have to wait for.
  [[nodiscard]] bool all_stopped() const;
  // Every node of the current round is done.
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] bool any_done() const;
  // Whose connection the node's process has, or another with the rank that it wants.
  [[nodiscard]] std::optional<MemberId> of_agent(AgentId agent) const;
  [[nodiscard]] std::optional<MemberId> of_rank(int node_rank) const;

  // Makes at most `most` nodes active and fills world.members, world.nodes and world.world_size: first those
  // that have a seat, then those that want a certain rank, then the others in the order of their arrival. The
  // workers of each role are counted in the order of their ranks.
  void choose(int most, World& world);

  [[nodiscard]] const std::map<MemberId, Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::map<MemberId, Node>& nodes() { return nodes_; }

 private:
  std::map<MemberId, Node> nodes_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace dlaunch::agent
