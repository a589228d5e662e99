// Messages through rings whose ranks give up, leave, die, or write what no rank writes.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/point_to_point/memory_protocol.h"
#include "runtime/point_to_point/message_errors.h"
#include "tests/runtime/point_to_point/protocol_ranks.h"

namespace dlaunch::internal {
namespace {

using test::long_count;
using test::MemoryProtocolTest;
using test::RingRanks;
using test::some_values;
using test::soon;
using test::Values;

TEST_F(MemoryProtocolTest, AReceiveThatComesTooLateNamesThePeerOnAllRanks) {
  Values received(10);
  const Work work = receive(1, 0, received, 4, deadline_after(std::chrono::milliseconds(0)));
  step(1);
  EXPECT_NE(error_of(work).find("no message with tag 4 from it before the deadline"), std::string::npos)
      << error_of(work);
  EXPECT_EQ(all_.reason(), "rank 1 gave up: no message with tag 4 from it before the deadline");
}

TEST_F(MemoryProtocolTest, AReceiveFromAnyRankThatComesTooLateEndsNothingElse) {
  Values received(10);
  const Work work = receive(1, any_source, received, 4, deadline_after(std::chrono::milliseconds(0)));
  step(1);
  EXPECT_NE(error_of(work).find("no message with tag 4 from any rank before the deadline"),
            std::string::npos);
  EXPECT_EQ(all_.reason(), "");
  EXPECT_FALSE(all_.rings(0).has_withdrawn(1));
  const Values sent = some_values(long_count);
  Values more(long_count);
  (void)send(1, 0, sent);
  const Work later = receive(0, 1, more);
  step(0);
  EXPECT_EQ(more, sent);
}

// The sender may change its memory when send() has failed, although the receiver may read it at that moment.
TEST_F(MemoryProtocolTest, MemoryOfASendThatIsGivenUpIsWithdrawn) {
  if (!all_.rings(0).may_lend()) GTEST_SKIP() << "the ranks do not read each other's memory here";
  const Values sent = some_values(long_count);
  const Work out = send(0, 1, sent, 0, deadline_after(std::chrono::milliseconds(0)));
  step(0);
  EXPECT_NE(error_of(out).find("it did not receive the message with tag 0 before the deadline"),
            std::string::npos);
  Values received(long_count);
  step(1);
  EXPECT_TRUE(all_.rings(1).has_withdrawn(0));
  EXPECT_THROW(receive(1, 0, received), DistNetworkError);
  EXPECT_EQ(reads_, 0);
}

TEST_F(MemoryProtocolTest, AReadThatIsOverWhenTheMemoryIsWithdrawnIsNotUsed) {
  if (!all_.rings(0).may_lend()) GTEST_SKIP() << "the ranks do not read each other's memory here";
  const Values sent = some_values(long_count);
  Values received(long_count);
  (void)send(0, 1, sent);
  Rank& rank = *ranks_[1];
  const WorkSource source;
  rank.protocol.receive({Tensor::of(received), 0, 0, soon(), source}, rank.outcome);
  rank.protocol.progress(rank.outcome);
  ASSERT_EQ(rank.outcome.reads.size(), 1U);
  all_.rings(0).withdraw();
  EXPECT_FALSE(rank.protocol.make(rank.outcome.reads.front()));
  settle(1);
}

TEST_F(MemoryProtocolTest, MessagesOfARankThatLeftAreStillReceived) {
  const Values sent = some_values(10);
  Values received(10);
  (void)send(0, 1, sent);
  all_.leave(0);
  const Work first = receive(1, 0, received);
  const Work second = receive(1, 0, received);
  step(1);
  EXPECT_TRUE(first.is_success());
  EXPECT_EQ(received, sent);
  EXPECT_NE(error_of(second).find("it has left the group"), std::string::npos) << error_of(second);
  EXPECT_EQ(all_.reason(), "it has left the group");
}

TEST_F(MemoryProtocolTest, AReceiveOfAMessageWhoseSenderLeftBeforeItWasReadFails) {
  const Values sent = some_values(long_count);
  for (const bool is_posted : {true, false}) {
    RingRanks all(2);
    MemoryProtocol sender(all.transport(0), all.rings(0));
    MemoryProtocol receiver(all.transport(1), all.rings(1));
    MemoryProtocol::Outcome outcome;
    Values received(long_count);
    const PostedReceive receive{Tensor::of(received), 0, 0, soon(), WorkSource()};
    ASSERT_FALSE(sender.send_at_once(Tensor::of(sent), 1, 0, outcome));
    sender.send_rts({Tensor::of(sent), 1, 0, soon(), WorkSource()});
    sender.withdraw();
    all.leave(0);
    if (is_posted) receiver.receive(receive, outcome);
    receiver.progress(outcome);
    if (!is_posted) receiver.receive(receive, outcome);
    for (std::size_t i = 0; i < outcome.reads.size(); ++i)
      receiver.end_read(outcome.reads[i], receiver.make(outcome.reads[i]), outcome);
    ASSERT_EQ(outcome.endings.size(), 1U);
    ASSERT_TRUE(outcome.endings[0].error);
    EXPECT_EQ(message_of(outcome.endings[0].error), message_of(network_error("it has left the group", 0)));
    EXPECT_FALSE(receiver.is_busy());
  }
}

// The ranks are connected before their rings are made.
TEST_F(MemoryProtocolTest, ALossBeforeTheRingsAreThereIsNoticed) {
  all_.end(1, "it died");
  MessageRings late(all_.shared_segment(), {0, 1}, 0);
  MemoryProtocol protocol(all_.transport(0), late);
  MemoryProtocol::Outcome outcome;
  protocol.progress(outcome);
  EXPECT_TRUE(protocol.has_ended());
}

TEST_F(MemoryProtocolTest, ASendToARankThatLeftFails) {
  all_.leave(1);
  step(0);
  EXPECT_THROW((void)send(0, 1, some_values(1)), DistNetworkError);
  EXPECT_EQ(all_.reason(), "it has left the group");
}

TEST_F(MemoryProtocolTest, AReceiveFromAnyRankFailsWhenAllHaveLeft) {
  Values received(10);
  const Work work = receive(0, any_source, received);
  all_.leave(1);
  step(0);
  EXPECT_NE(error_of(work).find("all other ranks have left the group"), std::string::npos);
  EXPECT_THROW((void)receive(0, any_source, received), DistNetworkError);
}

TEST_F(MemoryProtocolTest, ALossEndsAllOperations) {
  Values received(10);
  const Values sent = some_values(long_count);
  const Work in = receive(0, 1, received);
  const Work out = send(0, 1, sent, 1);
  all_.end(1, "it died");
  step(0);
  EXPECT_NE(error_of(in).find("it died"), std::string::npos);
  EXPECT_NE(error_of(out).find("it died"), std::string::npos);
  EXPECT_TRUE(protocol(0).has_ended());
  EXPECT_FALSE(protocol(0).is_busy());
  EXPECT_THROW((void)send(0, 1, received), DistNetworkError);
  EXPECT_THROW((void)receive(0, 1, received), DistNetworkError);
}

TEST_F(MemoryProtocolTest, ValuesThatNoRankWritesEndItWithAnErrorThatNamesTheRank) {
  const std::vector<shared::RingRecord> records = {
      {.kind = 0},
      {.kind = 99},
      {.kind = 1, .dtype = 77},                                  // eager
      {.kind = 1, .count = 5},                                   // eager without its content
      {.kind = 1, .count = ~std::uint64_t{0} / 2, .number = 1},  // eager, whose size overflows
      {.kind = 2, .count = 1},                                   // rts without its address
      {.kind = 2, .dtype = 77, .count = 1},
  };
  for (const shared::RingRecord& record : records) {
    RingRanks all(2);
    MemoryProtocol protocol(all.transport(1), all.rings(1));
    MemoryProtocol::Outcome outcome;
    Values received(10);
    const WorkSource source;
    protocol.receive({Tensor::of(received), 0, 0, soon(), source}, outcome);
    ASSERT_TRUE(all.rings(0).put(1, record, {}));
    protocol.progress(outcome);
    ASSERT_EQ(outcome.endings.size(), 1U) << record.kind;
    EXPECT_NE(message_of(outcome.endings[0].error).find("values that no rank writes"), std::string::npos);
  }
}

TEST_F(MemoryProtocolTest, APieceBeyondItsMessageIsDamage) {
  all_.rings(0).forbid_direct_reads();
  const Values sent = some_values(long_count);
  Values received(long_count);
  (void)send(0, 1, sent);
  const Work in = receive(1, 0, received);
  step(1);  // it is accepted
  const std::byte content[64] = {};
  ASSERT_TRUE(all_.rings(0).put(1, {.kind = 5, .count = long_count * sizeof(std::int32_t) - 60, .number = 1},
                                content));
  step(1);
  EXPECT_NE(error_of(in).find("values that no rank writes"), std::string::npos) << error_of(in);
}

TEST_F(MemoryProtocolTest, AnswersThatNoMessageAwaitsAreIgnored) {
  for (const std::uint32_t kind : {3U, 4U, 5U, 6U}) {
    ASSERT_TRUE(all_.rings(0).put(1, {.kind = kind, .count = ~std::uint64_t{0}, .number = 12345}, {}));
  }
  step(1);
  EXPECT_FALSE(protocol(1).has_ended());
}

}  // namespace
}  // namespace dlaunch::internal
