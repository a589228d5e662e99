#include "runtime/shared_memory/message_rings.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using test::soon;

class MessageRingsTest : public testing::Test {
 protected:
  bool put(std::uint64_t number, std::size_t size) {
    const std::vector<std::byte> content(size, static_cast<std::byte>(number));
    return sender_.put(1, {.kind = 1, .number = number}, content);
  }
  // Its number; 0: there is none. Its content is checked.
  std::uint64_t take() {
    const auto arrived = receiver_.front(0);
    if (!arrived) return 0;
    for (const std::byte byte : arrived->content) {
      EXPECT_EQ(byte, static_cast<std::byte>(arrived->record.number));
    }
    sizes_.push_back(arrived->content.size());
    const std::uint64_t number = arrived->record.number;
    receiver_.pop(0);
    return number;
  }
  void expect_damaged() {
    try {
      (void)receiver_.front(0);
      ADD_FAILURE() << "no error";
    } catch (const DistNetworkError& e) {
      EXPECT_EQ(e.context().peer, 0);
      EXPECT_EQ(e.reason(), "its part of the shared memory has values that no rank writes");
    }
  }
  [[nodiscard]] shared::RingRecord& first_record() const {
    return *reinterpret_cast<shared::RingRecord*>(segment_->ring(0, 1));
  }

  const std::shared_ptr<Segment> segment_ = test::new_segment(2);
  MessageRings sender_{segment_, {0, 1}, 0};
  MessageRings receiver_{segment_, {0, 1}, 1};
  std::vector<std::size_t> sizes_;
};

TEST_F(MessageRingsTest, ARecordArrivesOnce) {
  EXPECT_EQ(take(), 0U);
  EXPECT_FALSE(receiver_.has_records());
  ASSERT_TRUE(put(7, 100));
  EXPECT_TRUE(receiver_.has_records());
  EXPECT_TRUE(receiver_.has_records_of(0));
  EXPECT_FALSE(sender_.has_records());
  EXPECT_EQ(take(), 7U);
  EXPECT_EQ(sizes_, std::vector<std::size_t>{100});
  EXPECT_EQ(take(), 0U);
  EXPECT_FALSE(receiver_.has_records());
}

TEST_F(MessageRingsTest, AFullRingTakesNothingUntilARecordIsRemoved) {
  std::uint64_t put_so_far = 0;
  while (put(put_so_far + 1, sender_.most_content())) ++put_so_far;
  EXPECT_GE(put_so_far, 2U);
  EXPECT_FALSE(put(put_so_far + 1, sender_.most_content()));
  EXPECT_EQ(take(), 1U);
  EXPECT_TRUE(put(put_so_far + 1, sender_.most_content()));
  for (std::uint64_t number = 2; number <= put_so_far + 1; ++number) EXPECT_EQ(take(), number);
  EXPECT_EQ(take(), 0U);
}

TEST_F(MessageRingsTest, RoomIsReportedToARankThatFoundNone) {
  EXPECT_FALSE(sender_.has_room());
  while (put(1, sender_.most_content())) {
  }
  EXPECT_FALSE(sender_.has_room());
  EXPECT_EQ(take(), 1U);
  EXPECT_TRUE(sender_.has_room());
  EXPECT_TRUE(put(1, 10));
  EXPECT_FALSE(sender_.has_room());
  EXPECT_FALSE(put(1, sender_.most_content()));
  sender_.forget_room(1);
  EXPECT_EQ(take(), 1U);
  EXPECT_FALSE(sender_.has_room());
}

TEST_F(MessageRingsTest, RecordsOfAllSizesArriveInOrderManyTimesAroundTheRing) {
  std::mt19937 random(1);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::vector<std::size_t> wanted;
  while (sent < 3000) {
    const std::size_t size = random() % 4 == 0 ? random() % (sender_.most_content() + 1) : random() % 200;
    if (put(sent + 1, size)) {
      ++sent;
      wanted.push_back(size);
    } else {
      EXPECT_EQ(take(), ++received);
    }
  }
  while (received < sent) EXPECT_EQ(take(), ++received);
  EXPECT_EQ(sizes_, wanted);
}

TEST_F(MessageRingsTest, ALengthThatNoRankWritesIsDamage) {
  ASSERT_TRUE(put(1, 10));
  first_record().size = 1U << 30U;
  expect_damaged();
}

TEST_F(MessageRingsTest, ALengthBeyondWhatWasWrittenIsDamage) {
  ASSERT_TRUE(put(1, 10));
  first_record().size = 1000;
  expect_damaged();
}

TEST_F(MessageRingsTest, APositionThatNoRankWritesIsDamage) {
  ASSERT_TRUE(put(1, 10));
  std::atomic<std::uint64_t>& written = segment_->ring_ends(0, 1).written.value;
  for (const std::uint64_t wrong : {std::uint64_t{1} << 40U, std::uint64_t{65}, ~std::uint64_t{0}}) {
    written = wrong;
    expect_damaged();
  }
}

TEST_F(MessageRingsTest, ASkipWithoutARecordBehindItIsDamage) {
  ASSERT_TRUE(put(1, 10));
  first_record().kind = shared::skip_record;
  expect_damaged();
}

TEST_F(MessageRingsTest, ARingThatIsReadBeforeItIsWrittenIsDamage) {
  while (put(1, sender_.most_content())) {
  }
  segment_->ring_ends(0, 1).read.value = std::uint64_t{1} << 40U;
  EXPECT_THROW(put(1, sender_.most_content()), DistNetworkError);
}

TEST_F(MessageRingsTest, ASleepingRankIsNotified) {
  for (int i = 0; i < 200; ++i) {
    std::thread sleeper([&] {
      const std::uint32_t seen = receiver_.rings_seen();
      while (take() == 0) receiver_.sleep(seen, soon(), [&] { return receiver_.has_records(); });
    });
    ASSERT_TRUE(put(1, 10));
    sender_.notify(1);
    sleeper.join();
  }
}

TEST_F(MessageRingsTest, AnInterruptEndsASleep) {
  const std::uint32_t before = receiver_.interrupts();
  std::thread sleeper([&] {
    while (receiver_.interrupts() == before) {
      receiver_.sleep(receiver_.rings_seen(), soon(), [&] { return receiver_.interrupts() != before; });
    }
  });
  receiver_.interrupt();
  sleeper.join();
}

TEST_F(MessageRingsTest, ARankYieldsOnlyToOneOfItsSchedulingGroupToWhichItHasSent) {
  EXPECT_FALSE(sender_.can_yield()) << "it has sent nothing";
  ASSERT_TRUE(put(1, 8));
  EXPECT_FALSE(sender_.can_yield()) << "the receiver's group is not known";
  EXPECT_FALSE(receiver_.can_yield()) << "it has sent nothing";
  EXPECT_TRUE(sender_.can_yield());
  ++segment_->control(1).message_bell.scheduling_group;
  EXPECT_FALSE(sender_.can_yield()) << "the receiver is in another group";
}

TEST_F(MessageRingsTest, AWithdrawalIsSeenByAllRanks) {
  EXPECT_FALSE(receiver_.has_withdrawn(0));
  if (!sender_.may_lend()) GTEST_SKIP() << "the ranks do not read each other's memory here";
  sender_.withdraw();
  EXPECT_TRUE(receiver_.has_withdrawn(0));
  EXPECT_FALSE(receiver_.has_withdrawn(1));
}

TEST_F(MessageRingsTest, MemoryIsNotLentIfDirectReadsAreForbidden) {
  sender_.forbid_direct_reads();
  EXPECT_FALSE(sender_.may_lend());
}

// Of a group on several hosts: its ranks keep their numbers in the group.
TEST(MessageRingsOfSome, RanksThatShareNoMemoryAreNoMembers) {
  const std::shared_ptr<Segment> segment = test::new_segment(5);
  MessageRings sender(segment, {1, 4}, 0);
  MessageRings receiver(segment, {1, 4}, 1);
  EXPECT_EQ(sender.self(), 1U);
  EXPECT_EQ(receiver.self(), 4U);
  for (const int rank : {0, 2, 3, 5, -1}) EXPECT_FALSE(sender.is_member(rank)) << rank;
  EXPECT_TRUE(sender.is_member(4));
  const std::string text = "text";
  ASSERT_TRUE(sender.put(4, {.kind = 1, .tag = 9}, std::as_bytes(std::span(text))));
  EXPECT_TRUE(receiver.has_records());
  const auto arrived = receiver.front(1);
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->record.tag, 9U);
  EXPECT_EQ(arrived->content.size(), text.size());
  receiver.pop(1);
  EXPECT_FALSE(receiver.has_records());
}

}  // namespace
}  // namespace dlaunch::internal
