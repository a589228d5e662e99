// Which receive gets which send, between two ranks.

#include "runtime/backends/gloo/slot_matcher.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace dlaunch::internal {
namespace {

using Send = std::shared_ptr<Outgoing>;
using Receive = std::shared_ptr<Incoming>;

Send send() { return std::make_shared<Outgoing>(); }
Receive receive() { return std::make_shared<Incoming>(); }

TEST(SlotMatcher, ASendWaitsForItsReceive) {
  SlotMatcher matcher;
  const Send first = send();
  const Send second = send();
  EXPECT_FALSE(matcher.post_send(7, first));
  EXPECT_FALSE(matcher.post_send(7, second));
  EXPECT_EQ(matcher.waiting_sends(7), 2U);
  EXPECT_EQ(matcher.ready(7), first);
  EXPECT_EQ(matcher.ready(7), second);
  EXPECT_EQ(matcher.ready(7), nullptr);  // counts for a later send
  EXPECT_EQ(matcher.waiting_sends(7), 0U);
}

TEST(SlotMatcher, AReceiveMayBeReadyBefore) {
  SlotMatcher matcher;
  EXPECT_EQ(matcher.ready(7), nullptr);
  EXPECT_EQ(matcher.ready(7), nullptr);
  EXPECT_TRUE(matcher.post_send(7, send()));
  EXPECT_TRUE(matcher.post_send(7, send()));
  EXPECT_FALSE(matcher.post_send(7, send()));
}

TEST(SlotMatcher, SlotsAreApart) {
  SlotMatcher matcher;
  EXPECT_EQ(matcher.ready(1), nullptr);
  EXPECT_FALSE(matcher.post_send(2, send()));
  EXPECT_EQ(matcher.waiting_sends(1), 0U);
  EXPECT_EQ(matcher.waiting_sends(2), 1U);
  EXPECT_TRUE(matcher.post_send(1, send()));
}

// The others keep their order; a message that is under way cannot be withdrawn.
TEST(SlotMatcher, AWaitingSendCanBeWithdrawn) {
  SlotMatcher matcher;
  const std::vector<Send> sends = {send(), send(), send()};
  for (const Send& one : sends) matcher.post_send(7, one);
  matcher.withdraw(7, sends[1]);
  matcher.withdraw(7, sends[1]);
  matcher.withdraw(8, sends[0]);
  EXPECT_EQ(matcher.waiting_sends(7), 2U);
  EXPECT_EQ(matcher.ready(7), sends[0]);
  matcher.withdraw(7, sends[0]);
  EXPECT_EQ(matcher.ready(7), sends[2]);
}

TEST(SlotMatcher, PartsGoToTheOldestReceiveUntilItsEnd) {
  SlotMatcher matcher;
  const Receive first = receive();
  const Receive second = receive();
  EXPECT_EQ(matcher.receiving(7), nullptr);
  EXPECT_EQ(matcher.end_receive(7), nullptr);  // the peer sends what nobody has asked for
  matcher.post_receive(7, first);
  matcher.post_receive(7, second);
  EXPECT_EQ(matcher.receiving(7), first);
  EXPECT_EQ(matcher.receiving(7), first);
  EXPECT_EQ(matcher.end_receive(7), first);
  EXPECT_EQ(matcher.end_receive(7), second);
  EXPECT_EQ(matcher.receiving(7), nullptr);
}

// Two matchers, as the two ends of a connection use them: the n-th receive gets the n-th send.
TEST(SlotMatcher, BothEndsCountAlike) {
  std::mt19937 random(9);
  SlotMatcher sender;
  SlotMatcher receiver;
  std::map<std::uint64_t, std::deque<Send>> sends;        // not received yet, by slot
  std::map<std::uint64_t, std::deque<Receive>> receives;  // not ended yet
  int arrived = 0;
  const auto arrive = [&](std::uint64_t slot, const Send& message) {
    ASSERT_EQ(message, sends[slot].front());
    ASSERT_EQ(receiver.end_receive(slot), receives[slot].front());
    sends[slot].pop_front();
    receives[slot].pop_front();
    ++arrived;
  };
  for (int i = 0; i < 5000; ++i) {
    const std::uint64_t slot = random() % 3;
    if (random() % 2 == 0) {
      const Send message = send();
      sends[slot].push_back(message);
      if (sender.post_send(slot, message)) arrive(slot, message);
    } else {
      const Receive message = receive();
      receives[slot].push_back(message);
      receiver.post_receive(slot, message);
      if (const Send ready = sender.ready(slot)) arrive(slot, ready);
    }
    ASSERT_TRUE(sends[slot].empty() || receives[slot].empty());
    ASSERT_EQ(sender.waiting_sends(slot), sends[slot].size());
  }
  EXPECT_GT(arrived, 1000);
}

}  // namespace
}  // namespace dlaunch::internal
