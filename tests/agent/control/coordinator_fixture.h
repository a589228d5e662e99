// A coordinator of a job of two nodes, and the little language that stories about it are told in.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/coordinator.h"
#include "agent/model/job_rules.h"
#include "tests/agent/model/example_job.h"

namespace dlaunch::agent {

// As the node with this rank sends it, whose agent's id is 100 more.
inline Join example_join(const JobSpec& job, int node_rank, int slots) {
  Join join{job.id, node_rank,
            slots,  "host" + std::to_string(node_rank),
            "0.1",  static_cast<AgentId>(node_rank) + 100};
  join.rules = rules_of(job);
  return join;
}

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() { job_.max_restarts = 1; }

  void begin() {
    coordinator_.emplace(job_, job_.master, 100, now_, unix_us);
    coordinator_->begin();
  }
  void from(MemberId member, Message message) {
    last_ = coordinator_->step(now_, FromMember{member, std::move(message)});
  }
  Join join(int node_rank, int slots = 2) const { return example_join(job_, node_rank, slots); }
  void gather() {
    begin();
    from(0, join(0));
    from(7, join(1));
  }
  Failed failed(std::uint32_t round, int rank, Duration age = {}) {
    Failure failure;
    failure.kind = FailureKind::worker;
    failure.round = round;
    failure.rank = rank;
    failure.status = {ExitStatus::How::exited, 3, false};
    return {failure, age};
  }
  template <class M>
  std::vector<std::pair<MemberId, M>> sent() const {
    std::vector<std::pair<MemberId, M>> found;
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToMember>(&action)) {
        if (const auto* message = std::get_if<M>(&to->message)) found.emplace_back(to->member, *message);
      }
    }
    return found;
  }
  // What everybody was told at the end.
  Outcome ending() const {
    const auto ends = sent<End>();
    EXPECT_FALSE(ends.empty());
    return ends.empty() ? Outcome{} : ends.front().second.outcome;
  }
  // What was said, to people.
  std::vector<std::string> words() const {
    std::vector<std::string> found;
    for (const auto& action : last_) {
      if (const auto* message = std::get_if<LogMessage>(&action)) found.push_back(message->text);
    }
    return found;
  }
  template <class A>
  bool did() const {
    for (const auto& action : last_) {
      if (std::holds_alternative<A>(action)) return true;
    }
    return false;
  }

  TimePoint now_{std::chrono::seconds(100)};
  JobSpec job_ = example_job();
  static constexpr std::int64_t unix_us = 1'700'000'000'000'000;  // the wall clock at the beginning
  std::optional<Coordinator> coordinator_;
  CoordinatorActions last_;
};

}  // namespace dlaunch::agent
