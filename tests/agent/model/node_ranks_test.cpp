#include "agent/model/node_ranks.h"

#include <gtest/gtest.h>

#include "tests/agent/model/made_page.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class NodeRanksTest : public ::testing::Test {
 protected:
  NodeRanksTest() {
    status_.host = "a";
    status_.node_rank = 0;
    status_.round = 2;
    status_.world_size = 2;
    for (int rank = 0; rank < 2; ++rank) {
      status_.workers.push_back({rank, rank, 100 + rank, "running", "last line", 3, 0.5});
      pages_.emplace_back(rank, 2).add_group(1, "default");
    }
    history_.begin_round(TimePoint{seconds(10)});
  }
  NodeRanks at(std::int64_t when_s) {
    std::vector<WorkerLook> looks;
    for (int rank = 0; rank < 2; ++rank) {
      const MadePage& page = pages_[static_cast<std::size_t>(rank)];
      WorkerLook look{rank, rank, 100 + rank, Condition::runs, "is running", 5000};
      look.record = parse_worker_page(page.bytes(), page.bytes());
      looks.push_back(look);
    }
    history_.look(TimePoint{seconds(when_s)}, looks);
    return node_ranks(status_, history_);
  }

  JobStatus status_;
  std::vector<MadePage> pages_;
  RankHistory history_;
};

TEST_F(NodeRanksTest, ARankThatIsWaitedForIsAFinding) {
  pages_[0].enter(1, page::Operation::all_reduce, 1, 12 * second);
  EXPECT_TRUE(at(14).findings.empty()) << "ranks are never at the same place";
  const NodeRanks node = at(20);
  ASSERT_EQ(node.findings.size(), 1U);
  EXPECT_EQ(node.findings[0],
            "rank 1 never entered all_reduce #1 of group default; the other one has waited 8 s");
  ASSERT_EQ(node.ranks.size(), 2U);
  EXPECT_EQ(node.ranks[0].samples, "sw");
  EXPECT_TRUE(node.ranks[0].inside);
  EXPECT_EQ(node.ranks[0].operation, "all_reduce #1 of group default");
  EXPECT_EQ(node.ranks[0].operation_s, 8);
  EXPECT_EQ(node.ranks[1].operation, "");
  EXPECT_EQ(node.ranks[1].memory, 5000U);
  EXPECT_EQ(node.ranks[1].late_s, 0.5);
}

TEST_F(NodeRanksTest, OutsideTheLastOperationIsShown) {
  page::Record& message = pages_[0].enter(1, page::Operation::send, 1, 12 * second);
  message.peer = 1;
  pages_[0].call_at(message, 42, "step");
  pages_[0].end(message, 13 * second);
  const RankView rank = at(20).ranks[0];
  EXPECT_FALSE(rank.inside);
  EXPECT_EQ(rank.operation, "send to rank 1 of group default at train.py:42 in step");
  EXPECT_EQ(rank.operation_s, 7);
  EXPECT_EQ(rank.times, (std::vector<double>{2, 7, 1, 0, 0, 0}));
}

TEST_F(NodeRanksTest, WaitsThatHaveNoRecordAreShownToo) {
  pages_[0].raw().header.forming_ns = 12 * second;
  EXPECT_EQ(at(20).ranks[0].operation, "init_process_group");
  pages_[0].raw().header.forming_ns = 0;
  pages_[0].raw().header.key_since_ns = 15 * second;
  std::ranges::copy(std::string_view("never"), pages_[0].raw().header.key.begin());
  const RankView rank = at(21).ranks[0];
  EXPECT_EQ(rank.operation, "the wait for the key 'never' of a store");
  EXPECT_EQ(rank.operation_s, 6);
}

TEST_F(NodeRanksTest, SurvivesItsJson) {
  pages_[0].enter(1, page::Operation::barrier, 1, 12 * second);
  std::vector<NodeRanks> nodes{at(20)};
  nodes[0].ranks[0].last_lines = "<script>\n";
  JobTimes times(2, TimePoint{seconds(10)});
  JobStatus status;
  for (const char* state : {"running", "stopping", "waiting", "running"}) {
    status.state = state;
    status.unnoticed_s += 0.5;
    times.step(TimePoint{seconds(11)}, status, {});
  }
  add_times(nodes[0], times);
  EXPECT_EQ(nodes[0].times.size(), time_kinds);
  EXPECT_EQ(nodes[0].times[0], 2) << "two ranks for a second before the first round";
  ASSERT_EQ(nodes[0].restarts.size(), 1U);
  EXPECT_EQ(nodes[0].restarts[0].detect, 1);
  const std::string json = to_json(nodes);
  EXPECT_TRUE(json.starts_with(R"({"kinds":[{"letter":"s","name":"starting"},)")) << json;
  EXPECT_EQ(*node_ranks_from_json(json), nodes);
  EXPECT_FALSE(node_ranks_from_json("{}").ok());
  EXPECT_FALSE(node_ranks_from_json("[").ok());
}

TEST_F(NodeRanksTest, AreBounded) {
  status_.workers.assign(NodeRanks::most_ranks + 5, {});
  EXPECT_EQ(node_ranks(status_, history_).ranks.size(), NodeRanks::most_ranks);
}

}  // namespace
}  // namespace dlaunch::agent
