// For tests of the WorkerGroup.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <variant>

#include "agent/control/worker_group.h"

namespace dlaunch::agent {

// A node with two workers, the ranks 2 and 3.
class WorkerGroupTest : public ::testing::Test {
 protected:
  void start() {
    World world;
    world.world_size = 4;
    world.members = {{1, 2, 2, "b", agent_id, 1}};
    world.round = round_;
    step(StartWorkers{world});
    for (int i = 0; i < 2; ++i) step(WorkerStarted{i, 100 + i});
    last_.clear();
  }
  void step(const GroupEvent& event) { last_ = group_.step(now_, event); }
  void exit(int local_rank, int code) { ended(local_rank, {ExitStatus::How::exited, code, false}); }
  void killed(int local_rank, int signo) { ended(local_rank, {ExitStatus::How::signaled, signo, false}); }
  void ended(int local_rank, ExitStatus status, std::optional<Duration> since_exception = {}) {
    WorkerExit exit;
    exit.status = status;
    exit.tail = "tail";
    if (since_exception) exit.exception = "E: x";
    exit.since_exception = since_exception;
    step(WorkerExited{local_rank, 100 + local_rank, exit});
  }
  // It fails because of this rank; -1: its words do not say of which.
  void accuse(int local_rank, int rank) {
    WorkerExit exit;
    exit.status = {ExitStatus::How::exited, 1, false};
    exit.exit_record.blamed_rank = rank;
    if (rank < 0) exit.tail = "Connection closed by peer";
    step(WorkerExited{local_rank, 100 + local_rank, exit});
  }
  template <class A>
  const A* got() const {
    for (const auto& action : last_) {
      if (const auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }

  TimePoint now_{std::chrono::seconds(1000)};
  std::uint32_t round_ = 0;
  GroupActions last_;
  static constexpr AgentId agent_id = 42;
  static NodeSpec node() {
    NodeSpec node{1, 2, "b", "default", {"./train"}};
    node.agent = agent_id;
    return node;
  }
  WorkerGroup group_{node(), {std::chrono::seconds(30), {{SIGINT, std::chrono::seconds(5)}}}};
};

}  // namespace dlaunch::agent
