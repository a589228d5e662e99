// Node 1 of a job of two nodes, and short forms of its events and actions.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "agent/control/member.h"
#include "tests/agent/model/example_job.h"

namespace dlaunch::agent {

class MemberTest : public ::testing::Test {
 protected:
  static JobSpec job() {
    JobSpec job = example_job();
    job.node_timeout = Duration(0);
    return job;
  }
  NewWorld world(std::uint32_t round) const {
    NewWorld message;
    message.grant = {stamp_of(now_), std::chrono::seconds(5)};
    message.world.round = round;
    message.world.world_size = 2;
    message.world.nodes = 2;
    message.world.members = {{1, 1, 1, "b", agent_id, 1}};
    return message;
  }
  void step(const MemberEvent& event) { last_ = member_.step(now_, event); }
  void hear(Message message) { step(FromCoordinator{std::move(message)}); }
  void work() {
    step(LinkUp{});
    hear(world(0));
  }
  template <class A>
  const A* got() const {
    for (const auto& action : last_) {
      if (const auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }
  template <class E>
  const E* told_group() const {
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToGroup>(&action)) {
        if (const auto* event = std::get_if<E>(&to->event)) return event;
      }
    }
    return nullptr;
  }
  template <class M>
  const M* said() const {
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToCoordinator>(&action)) {
        if (const auto* message = std::get_if<M>(&to->message)) return message;
      }
    }
    return nullptr;
  }

  static constexpr AgentId agent_id = 42;
  static NodeSpec node() {
    NodeSpec node{1, 1, "b", "default", {"./train"}};
    node.agent = agent_id;
    return node;
  }

  TimePoint now_{std::chrono::seconds(100)};
  Member member_{job(), node(), "0.1", now_};
  MemberActions last_;
};

}  // namespace dlaunch::agent
