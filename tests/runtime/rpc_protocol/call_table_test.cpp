// How calls end: once each, with what is known.

#include "runtime/rpc_protocol/call_table.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlaunch::internal {
namespace {

using std::chrono::seconds;

struct Kept final : CallReceiver {
  void finish(CallOutcome outcome) override { outcomes.push_back(std::move(outcome)); }
  std::vector<CallOutcome> outcomes;
};

class Calls : public testing::Test {
 protected:
  // With a timeout of that many seconds; 0: none.
  std::uint64_t begin(int timeout, std::size_t bytes = 10) {
    const Deadline deadline = timeout == 0 ? Deadline::max() : Deadline(seconds(timeout));
    receivers_.push_back(std::make_shared<Kept>());
    return table_.begin({"add", bytes, deadline, seconds(timeout), receivers_.back()});
  }
  void deliver() {
    for (const CallTable::Ended& one : ended_) one.receiver->finish(one.outcome);
    ended_.clear();
  }
  // The text of the n-th call's end; empty: it has a result, or has not ended.
  std::string text(std::size_t n) const {
    if (receivers_[n]->outcomes.empty()) return "";
    const auto* const none = std::get_if<NoAnswer>(&receivers_[n]->outcomes.at(0));
    return none ? none->text : "";
  }

  CallTable table_{"worker ps (rank 2) on host b"};
  std::vector<std::shared_ptr<Kept>> receivers_;
  std::vector<CallTable::Ended> ended_;
};

using Numbers = std::unordered_set<std::uint64_t>;
const auto all_sent = [](std::span<const std::uint64_t>) { return Numbers(); };
const auto none_sent = [](std::span<const std::uint64_t> all) { return Numbers(all.begin(), all.end()); };

TEST_F(Calls, EndWithTheirAnswers) {
  const std::uint64_t first = begin(1);
  const std::uint64_t second = begin(2);
  EXPECT_GT(second, first);
  EXPECT_TRUE(table_.waits(second));
  table_.answer(second, "two", ended_);
  EXPECT_FALSE(table_.waits(second));
  table_.answer(first, CallFailure{.type = "", .text = "no"}, ended_);
  deliver();
  EXPECT_EQ(std::get<codec::Bytes>(receivers_[1]->outcomes.at(0)).front, "two");
  EXPECT_EQ(std::get<CallFailure>(receivers_[0]->outcomes.at(0)).text, "no");
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_EQ(table_.next_deadline(), Deadline::max());
}

TEST_F(Calls, EndOnce) {
  const std::uint64_t number = begin(1);
  table_.expire(Deadline(seconds(1)), all_sent, ended_);
  table_.answer(number, "late", ended_);
  table_.answer(number + 1, "of no call", ended_);
  table_.lose("it died", all_sent, ended_);
  deliver();
  EXPECT_EQ(receivers_[0]->outcomes.size(), 1U);
}

TEST_F(Calls, EndAtTheirDeadlines) {
  begin(3);
  begin(0);
  begin(1);
  EXPECT_EQ(table_.next_deadline(), Deadline(seconds(1)));
  table_.expire(Deadline(seconds(1)), all_sent, ended_);
  deliver();
  EXPECT_EQ(
      text(2),
      "worker ps (rank 2) on host b did not answer 'add' within 1 s; it was sent, and may still run there");
  EXPECT_EQ(text(0), "");
  table_.expire(Deadline(seconds(1000000)), none_sent, ended_);
  deliver();
  EXPECT_EQ(text(0), "worker ps (rank 2) on host b did not answer 'add' within 3 s; it was not sent");
  EXPECT_EQ(table_.size(), 1U);  // it has no deadline
}

TEST_F(Calls, EndWithTheCallee) {
  const std::uint64_t first = begin(1);
  const std::uint64_t second = begin(0);
  const auto second_unsent = [&](std::span<const std::uint64_t> all) {
    EXPECT_EQ(Numbers(all.begin(), all.end()), (Numbers{first, second}));
    return Numbers{second};
  };
  table_.lose("died", second_unsent, ended_);
  deliver();
  EXPECT_EQ(text(0), "'add' was sent, no answer: worker ps (rank 2) on host b died");
  EXPECT_EQ(text(1), "'add' was not sent: worker ps (rank 2) on host b died");
}

TEST_F(Calls, AreLimitedByTheirBytes) {
  EXPECT_TRUE(table_.has_room(2 * CallTable::most_bytes));  // alone
  const std::uint64_t first = begin(0, CallTable::most_bytes - 5);
  EXPECT_TRUE(table_.has_room(5));
  EXPECT_FALSE(table_.has_room(6));
  table_.answer(first, "", ended_);
  EXPECT_TRUE(table_.has_room(6));
}

TEST_F(Calls, AreLimitedByTheirNumber) {
  for (std::size_t i = 0; i < CallTable::most_calls; ++i) begin(0, 0);
  EXPECT_FALSE(table_.has_room(0));
  table_.answer(1, "", ended_);
  EXPECT_TRUE(table_.has_room(0));
}

TEST_F(Calls, AreNamed) {
  EXPECT_EQ(table_.functions(), "");
  begin(0);
  EXPECT_EQ(table_.functions(), "'add'");
}

}  // namespace
}  // namespace dlaunch::internal
