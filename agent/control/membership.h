// Which nodes have joined the job, which of them are active, and their sticky ranks. Pure.
//
// A node keeps its sticky rank for as long as it stays, and the ranks of the workers follow the sticky ranks.
// So the nodes that stay keep their order, and a node that replaces a lost one takes its ranks.
#pragma once

#include <cstddef>
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
  class Node {
   public:
    Join joined;
    std::string address;  // without port; empty: this process
    std::uint64_t arrival = 0;
    TimePoint came;        // when its Join came
    TimePoint last_heard;  // when its last message came
    std::int64_t own = 0;  // its clock, in its last message
    TimePoint echoed{};  // when the message was sent that it last answered: it follows a node timeout longer
    int sticky_rank = -1;  // -1: none yet
    int index = -1;        // in the world's members; -1: not active
    bool active = false;   // in the current round
    bool done = false;     // its workers of the current round have all returned 0
    bool stopped = true;   // no process of any round is left there

    // In the world, or the requested one; -1: any.
    [[nodiscard]] int rank() const { return index >= 0 ? index : joined.node_rank; }
    // It will be in no later round.
    [[nodiscard]] bool leaves() const { return leaves_; }

   private:
    friend class Membership;
    bool leaves_ = false;
  };

  Node& add(MemberId member, Join join, std::string address, TimePoint now);
  // The removed node; none: it had not joined.
  std::optional<Node> remove(MemberId member);
  Node* find(MemberId member);
  // The node will be in no later round. REQUIRES: it is a member.
  void set_leaving(MemberId member);

  // Questions that each message asks cost the same for thousands of nodes: so these are counted.

  // The number of nodes that may be in the next round.
  [[nodiscard]] int ready() const { return static_cast<int>(nodes_.size() - leaving_); }
  // Another value: a node came, went or leaves.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }
  // How many of these stay here though this coordinator does not lead.
  [[nodiscard]] int staying() const;
  // All of these have answered a message that was sent at `since` or later.
  [[nodiscard]] bool all_have_answered(TimePoint since) const;
  // Nothing runs that a new round must wait for.
  [[nodiscard]] bool all_stopped() const;
  // Every node of the current round is done.
  [[nodiscard]] bool all_done() const;
  [[nodiscard]] bool any_done() const;
  // The member of this agent, or with this requested node rank.
  [[nodiscard]] std::optional<MemberId> of_agent(AgentId agent) const;
  [[nodiscard]] std::optional<MemberId> of_rank(int node_rank) const;

  // Makes at most `most` nodes active and fills world.members, world.nodes and world.world_size: first the
  // nodes with a sticky rank, then those that requested a rank, then the others in the order of their
  // arrival. The workers of each role are counted in the order of their ranks.
  void choose(int most, World& world);

  [[nodiscard]] const std::map<MemberId, Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::map<MemberId, Node>& nodes() { return nodes_; }

 private:
  // Whether it holds of all nodes. Begins at `exception`, the node of which it did not hold last: as the
  // nodes report one after the other, thousands of them are asked few times in all.
  template <class Holds>
  [[nodiscard]] bool is_true_of_all(MemberId& exception, const Holds& holds) const;

  mutable MemberId not_answered_ = 0;  // the last exceptions
  mutable MemberId not_stopped_ = 0;
  mutable MemberId not_done_ = 0;
  std::map<MemberId, Node> nodes_;
  std::multimap<AgentId, MemberId> by_agent_;
  std::multimap<int, MemberId> by_rank_;  // as requested
  std::size_t leaving_ = 0;               // nodes
  std::uint64_t changes_ = 0;
  std::uint64_t arrivals_ = 0;
};

}  // namespace dlaunch::agent
