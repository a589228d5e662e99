// Which receive gets which message, and what that costs with very many.

#include "runtime/point_to_point/matching.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

constexpr Deadline start{};
Deadline at(int seconds) { return start + std::chrono::seconds(seconds); }

// The number of a receive is its deadline, that of a message is in its envelope.
PostedReceive receive(int from, Tag tag, int number) { return {{}, from, tag, at(number), {}}; }
int number_of(const PostedReceive& receive) {
  return static_cast<int>((receive.deadline - start).count() / at(1).time_since_epoch().count());
}
ArrivedMessage message(int from, Tag tag, int number) {
  return {from, {.tag = tag, .number = static_cast<std::uint64_t>(number)}};
}
std::optional<int> take_message(Matching& matching, int from, Tag tag) {
  const auto taken = matching.take_message(from, tag);
  return taken ? std::optional(static_cast<int>(taken->envelope.number)) : std::nullopt;
}
std::optional<int> take_receive(Matching& matching, int from, Tag tag) {
  const auto taken = matching.take_receive(from, tag);
  return taken ? std::optional(number_of(*taken)) : std::nullopt;
}
std::vector<int> numbers_of(const std::vector<PostedReceive>& receives) {
  std::vector<int> numbers;
  for (const PostedReceive& receive : receives) numbers.push_back(number_of(receive));
  return numbers;
}

TEST(Matching, MessagesOfOneSourceAndTagDoNotOvertake) {
  Matching matching;
  for (int i = 1; i <= 3; ++i) matching.keep(message(4, 7, i));
  EXPECT_EQ(take_message(matching, 4, 7), 1);
  EXPECT_EQ(take_message(matching, any_source, 7), 2);
  EXPECT_EQ(take_message(matching, 4, 7), 3);
  EXPECT_EQ(take_message(matching, 4, 7), std::nullopt);
}

TEST(Matching, AnySourceTakesTheMessageThatArrivedFirst) {
  Matching matching;
  matching.keep(message(2, 7, 1));
  matching.keep(message(0, 8, 2));
  matching.keep(message(1, 7, 3));
  matching.keep(message(2, 7, 4));
  EXPECT_EQ(take_message(matching, any_source, 7), 1);
  EXPECT_EQ(take_message(matching, 2, 7), 4);
  EXPECT_EQ(take_message(matching, any_source, 7), 3);
  EXPECT_EQ(take_message(matching, any_source, 7), std::nullopt);
  EXPECT_EQ(take_message(matching, any_source, 8), 2);
}

TEST(Matching, AMessageGoesToTheReceiveThatWasPostedFirst) {
  Matching matching;
  matching.post(receive(1, 7, 1));
  matching.post(receive(any_source, 7, 2));
  matching.post(receive(1, 7, 3));
  matching.post(receive(any_source, 8, 4));
  EXPECT_EQ(take_receive(matching, 2, 7), 2);
  EXPECT_EQ(take_receive(matching, 2, 7), std::nullopt);
  EXPECT_EQ(take_receive(matching, 1, 7), 1);
  matching.post(receive(any_source, 7, 5));
  EXPECT_EQ(take_receive(matching, 1, 7), 3);
  EXPECT_EQ(take_receive(matching, 1, 7), 5);
  EXPECT_EQ(take_receive(matching, 1, 9), std::nullopt);
  EXPECT_EQ(take_receive(matching, 1, 8), 4);
}

// Compared with a model that searches through everything.
TEST(Matching, AgreesWithAReferenceModel) {
  struct Slow {
    std::deque<PostedReceive> receives;
    std::deque<ArrivedMessage> messages;
    static bool fit(const PostedReceive& receive, const ArrivedMessage& message) {
      return receive.tag == message.envelope.tag &&
             (receive.from == any_source || receive.from == message.from);
    }
    std::optional<int> arrive(const ArrivedMessage& message) {
      const auto found = std::ranges::find_if(receives, [&](const auto& one) { return fit(one, message); });
      if (found == receives.end()) {
        messages.push_back(message);
        return std::nullopt;
      }
      const int number = number_of(*found);
      receives.erase(found);
      return number;
    }
    std::optional<int> ask(const PostedReceive& receive) {
      const auto found = std::ranges::find_if(messages, [&](const auto& one) { return fit(receive, one); });
      if (found == messages.end()) {
        receives.push_back(receive);
        return std::nullopt;
      }
      const int number = static_cast<int>(found->envelope.number);
      messages.erase(found);
      return number;
    }
  };
  std::mt19937 random(7);
  const auto draw = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  Matching matching;
  Slow slow;
  for (int i = 1; i <= 20000; ++i) {
    const Tag tag = static_cast<Tag>(draw(3));
    if (draw(2) == 0) {
      const ArrivedMessage next = message(draw(3), tag, i);
      const auto taken = take_receive(matching, next.from, tag);
      if (!taken) matching.keep(next);
      ASSERT_EQ(taken, slow.arrive(next)) << i;
    } else {
      const PostedReceive next = receive(draw(4) - 1, tag, i);
      const auto taken = take_message(matching, next.from, tag);
      if (!taken) matching.post(next);
      ASSERT_EQ(taken, slow.ask(next)) << i;
    }
  }
}

TEST(Matching, ReceivesEndAtTheirDeadlines) {
  Matching matching;
  EXPECT_EQ(matching.next_deadline(), Deadline::max());
  for (const int number : {5, 2, 9, 3}) matching.post(receive(number % 2, 7, number));
  EXPECT_EQ(matching.next_deadline(), at(2));
  EXPECT_EQ(numbers_of(matching.take_expired(at(1))), std::vector<int>{});
  EXPECT_EQ(numbers_of(matching.take_expired(at(3))), (std::vector<int>{2, 3}));
  EXPECT_EQ(matching.next_deadline(), at(5));
  EXPECT_EQ(take_receive(matching, 1, 7), 5);
  EXPECT_EQ(matching.next_deadline(), at(9));
  EXPECT_EQ(take_receive(matching, 1, 7), 9);
  EXPECT_EQ(matching.next_deadline(), Deadline::max());
}

TEST(Matching, ReceivesOfOneSourceEndInTheirOrder) {
  Matching matching;
  for (int i = 1; i <= 6; ++i) matching.post(receive(i % 3 - 1, static_cast<Tag>(10 - i), i));
  EXPECT_EQ(numbers_of(matching.take_receives_from(0)), (std::vector<int>{1, 4}));
  EXPECT_EQ(numbers_of(matching.take_receives_from(any_source)), (std::vector<int>{3, 6}));
  EXPECT_EQ(numbers_of(matching.take_all_receives()), (std::vector<int>{2, 5}));
  EXPECT_EQ(matching.next_deadline(), Deadline::max());
}

// A step that searched through all the others would take hours here.
TEST(Matching, ManyTakeAsLittleAsFew) {
  constexpr int count = 300'000 / test::slowness;
  for (const bool one_tag : {true, false}) {
    const auto tag_of = [one_tag](int i) { return one_tag ? Tag{0} : static_cast<Tag>(i); };
    Matching matching;
    for (int i = 1; i <= count; ++i) matching.post(receive(i % 2 == 0 ? 3 : any_source, tag_of(i), i));
    for (int i = count; i > 0; --i) {
      ASSERT_EQ(matching.next_deadline(), at(one_tag ? count - i + 1 : 1));
      ASSERT_TRUE(take_receive(matching, 3, tag_of(i)));
      matching.keep(message(3, tag_of(i), i));
    }
    for (int i = 1; i <= count; ++i) {
      ASSERT_TRUE(take_message(matching, i % 2 == 0 ? 3 : any_source, tag_of(i)));
    }
  }
}

// --- Receives that two messengers have

PostedReceive shared_receive(Tag tag, int number, const std::shared_ptr<SharedReceive>& shared) {
  return {{}, any_source, tag, at(number), {}, shared};
}

TEST(Matching, AReceiveThatTheOtherMessengerHasTakenIsPassedOver) {
  Matching matching;
  const auto first = std::make_shared<SharedReceive>();
  const auto second = std::make_shared<SharedReceive>();
  matching.post(shared_receive(7, 1, first));
  matching.post(shared_receive(7, 2, second));
  EXPECT_TRUE(first->take());
  EXPECT_EQ(take_receive(matching, 4, 7), 2);
  EXPECT_TRUE(second->is_taken());
  EXPECT_EQ(take_receive(matching, 4, 7), std::nullopt);
  EXPECT_FALSE(matching.has_receives());
}

TEST(Matching, ATakenReceiveDoesNotExpireAndIsNotEnded) {
  for (const bool expires : {true, false}) {
    Matching matching;
    const auto taken = std::make_shared<SharedReceive>();
    const auto open = std::make_shared<SharedReceive>();
    matching.post(shared_receive(7, 1, taken));
    matching.post(shared_receive(7, 2, open));
    taken->take();
    EXPECT_EQ(numbers_of(expires ? matching.take_expired(at(3)) : matching.take_all_receives()),
              std::vector<int>{2});
    EXPECT_TRUE(open->is_taken());
  }
}

// Else a rank that receives from any rank for hours would keep all receives that the other messenger took.
TEST(Matching, TakenReceivesAreDroppedWithTheNextPost) {
  Matching matching;
  std::vector<std::shared_ptr<SharedReceive>> all;
  for (int i = 1; i <= 5; ++i) {
    all.push_back(std::make_shared<SharedReceive>());
    matching.post(shared_receive(static_cast<Tag>(i), i, all.back()));
  }
  for (const int i : {0, 1, 3}) all[static_cast<std::size_t>(i)]->take();
  matching.drop_taken();
  EXPECT_EQ(matching.next_deadline(), at(3));
  EXPECT_EQ(all[0].use_count(), 1);
  EXPECT_EQ(all[3].use_count(), 2);  // behind one that waits
  all[2]->take();
  matching.post(shared_receive(9, 9, std::make_shared<SharedReceive>()));
  EXPECT_EQ(all[3].use_count(), 1);
  EXPECT_EQ(matching.next_deadline(), at(5));
}

TEST(Matching, WhenAllHaveLeftOnlyTheSecondMessengerEndsAReceive) {
  Matching of_host;
  Matching of_others;
  const auto shared = std::make_shared<SharedReceive>();
  of_host.post(shared_receive(7, 1, shared));
  of_others.post(shared_receive(7, 1, shared));
  of_others.post(receive(any_source, 7, 2));
  of_host.post(receive(3, 7, 3));
  EXPECT_EQ(numbers_of(of_host.take_receives_from_nobody()), std::vector<int>{});
  EXPECT_FALSE(shared->is_taken());
  EXPECT_EQ(numbers_of(of_others.take_receives_from_nobody()), (std::vector<int>{1, 2}));
  EXPECT_TRUE(shared->is_taken());
  EXPECT_TRUE(of_host.has_receives());
}

TEST(Matching, ReportsWhetherAMessageWaits) {
  Matching matching;
  matching.keep(message(4, 7, 1));
  EXPECT_TRUE(matching.has_message(any_source, 7));
  EXPECT_TRUE(matching.has_message(4, 7));
  EXPECT_FALSE(matching.has_message(3, 7));
  EXPECT_FALSE(matching.has_message(any_source, 8));
}

}  // namespace
}  // namespace dlaunch::internal
