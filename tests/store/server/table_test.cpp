#include "store/server/table.h"

#include <gtest/gtest.h>

#include <optional>
#include <type_traits>
#include <vector>

#include "tests/store/server/requests.h"

namespace dlaunch::store {
namespace {

using namespace test;

// Its answers are written to its inbox, as a server would send them.
struct TestClient : Table::Client {
  std::string inbox;
  bool refused = false;
};

class TableTest : public testing::Test {
 protected:
  // Applies the request for the client; returns the answers that it has now.
  std::string ask(TestClient& client, const Request& request) {
    deliver(&client, table.apply(client, request));
    return take(client);
  }
  void leave(TestClient& client) { deliver(nullptr, table.forget(client)); }
  static std::string take(TestClient& client) { return std::exchange(client.inbox, {}); }

  static void deliver(TestClient* requester, const Table::Outcome& outcome) {
    if (requester != nullptr) {
      requester->inbox += encoded(outcome.answer);
      requester->refused = outcome.answer.kind == Answer::Kind::refused;
    }
    for (Table::Client* client : outcome.woken)
      static_cast<TestClient*>(client)->inbox += byte(answer_stop_waiting);
    for (const Table::WatchNotification& notification : outcome.notifications) {
      static_cast<TestClient*>(notification.client)->inbox +=
          byte(static_cast<std::uint8_t>(notification.event)) + text(notification.key) +
          text(notification.old_value.view()) + text(notification.new_value.view());
    }
  }

  Request set(std::string_view key, std::string_view value = "v") {
    return request(RequestKind::set, key, value);
  }
  Request get(std::string_view key) { return request(RequestKind::get, key); }
  Request add(std::string_view key, std::int64_t amount) { return numbered(RequestKind::add, key, amount); }
  Request wait(Texts keys) { return listing(RequestKind::wait, std::move(keys)); }
  Request check(Texts keys) { return listing(RequestKind::check, std::move(keys)); }
  Request remove(std::string_view key) { return request(RequestKind::delete_key, key); }
  Request push(std::string_view key, std::string_view value) {
    return request(RequestKind::queue_push, key, value);
  }
  Request pop(std::string_view key) { return request(RequestKind::queue_pop, key); }
  Request barrier(std::string_view key, std::int64_t size) {
    return numbered(RequestKind::barrier, key, size);
  }

  const std::string ready = byte(answer_ready);
  const std::string not_ready = byte(answer_not_ready);
  const std::string stop = byte(answer_stop_waiting);
  const std::string cancelled = byte(answer_wait_cancelled);

  Table table{StoreLimits{}};
  TestClient a;
  TestClient b;
  TestClient c;
};

TEST_F(TableTest, SetAndGet) {
  EXPECT_EQ(ask(a, set("k", "v")), "");
  EXPECT_EQ(ask(b, get("k")), text("v"));
  ask(a, set("k", "longer than before"));
  EXPECT_EQ(ask(b, get("k")), text("longer than before"));
  ask(a, set("k", ""));
  EXPECT_EQ(ask(b, get("k")), text(""));
}

TEST_F(TableTest, AnAbsentKeyIsGotAsEmpty) { EXPECT_EQ(ask(a, get("absent")), text("")); }

TEST_F(TableTest, AddKeepsDecimalText) {
  EXPECT_EQ(ask(a, add("n", 5)), i64(5));
  EXPECT_EQ(ask(a, add("n", -7)), i64(-2));
  EXPECT_EQ(ask(a, get("n")), text("-2"));
  ask(a, set("n", " 7x"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(8));
  ask(a, set("n", "9223372036854775807"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(std::numeric_limits<std::int64_t>::min()));
}

TEST_F(TableTest, AddOfNothingCreatesAndWakes) {
  ask(b, wait({"n"}));
  EXPECT_EQ(ask(a, add("n", 0)), i64(0));
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(a, get("n")), text("0"));
}

TEST_F(TableTest, AddToWhatIsNoNumberIsRefused) {
  for (const char* value : {"", "text", "99999999999999999999"}) {
    ask(a, set("n", value));
    EXPECT_EQ(ask(a, add("n", 1)), "");
    EXPECT_TRUE(a.refused);
    EXPECT_EQ(ask(a, get("n")), text(value));
  }
}

TEST_F(TableTest, CompareSetByTheBook) {
  EXPECT_EQ(ask(a, compare("k", "x", "y")), text("x"));  // absent and something expected: that comes back
  EXPECT_EQ(ask(a, check({"k"})), not_ready);
  EXPECT_EQ(ask(a, compare("k", "", "first")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "wrong", "y")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "", "y")), text("first"));
  EXPECT_EQ(ask(a, compare("k", "first", "second")), text("second"));
  EXPECT_EQ(ask(a, get("k")), text("second"));
  EXPECT_EQ(ask(a, compare("e", "", "")), text(""));
  EXPECT_EQ(ask(a, compare("e", "", "z")), text("z"));  // an empty value matches an empty expectation
}

TEST_F(TableTest, CompareSetWakesIfItCreatesAndOnlyThen) {
  ask(b, wait({"k"}));
  ask(a, compare("k", "x", "y"));
  EXPECT_EQ(take(b), "");
  ask(a, compare("k", "", "y"));
  EXPECT_EQ(take(b), stop);
  ask(a, compare("k", "y", "z"));
  EXPECT_EQ(take(b), "");
}

TEST_F(TableTest, Check) {
  ask(a, set("k"));
  EXPECT_EQ(ask(a, check({})), ready);
  EXPECT_EQ(ask(a, check({"k"})), ready);
  EXPECT_EQ(ask(a, check({"k", "absent"})), not_ready);
}

TEST_F(TableTest, CountsEveryKeyButNoQueue) {
  ask(a, add("init/", 1));
  ask(a, set("/k"));
  ask(a, push("/q", "v"));
  EXPECT_EQ(ask(a, request(RequestKind::num_keys)), i64(2));
  EXPECT_EQ(ask(a, remove("/k")), i64(1));
  EXPECT_EQ(ask(a, remove("/k")), i64(0));
  EXPECT_EQ(ask(a, request(RequestKind::num_keys)), i64(1));
}

TEST_F(TableTest, Append) {
  ask(b, wait({"k"}));
  EXPECT_EQ(ask(a, request(RequestKind::append, "k", "po")), "");
  EXPECT_EQ(take(b), stop);
  ask(a, request(RequestKind::append, "k", "tato"));
  EXPECT_EQ(ask(a, get("k")), text("potato"));
  ask(a, add("n", 1));
  ask(a, request(RequestKind::append, "n", "2"));
  EXPECT_EQ(ask(a, add("n", 1)), i64(13));
}

TEST_F(TableTest, ManyAtOnce) {
  ask(b, wait({"y"}));
  EXPECT_EQ(ask(a, listing(RequestKind::multi_set, {"x", "y"}, {"1", "22"})), "");
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(a, listing(RequestKind::multi_get, {"y", "absent", "x"})), text("22") + text("") + text("1"));
  EXPECT_EQ(ask(a, listing(RequestKind::multi_get, {})), "");
  EXPECT_EQ(ask(a, request(RequestKind::list_keys)), i64(2) + text("x") + text("y"));
}

TEST_F(TableTest, Ping) {
  EXPECT_EQ(ask(a, numbered(RequestKind::ping, {}, 0x5656)), std::string("VV\0\0", 4));
  EXPECT_EQ(ask(a, numbered(RequestKind::ping, {}, ping_of_dlaunch)), std::string("\xC7\xA0\xD1\0", 4));
}

// dlaunch's client reads a byte before the sum, so that an addition can fail without ending the connection.
TEST_F(TableTest, AnswersTheAdditionsOfOurClientWithAByteFirst) {
  ask(a, numbered(RequestKind::ping, {}, ping_of_dlaunch));
  EXPECT_EQ(ask(a, add("n", 5)), ready + i64(5));
  EXPECT_EQ(ask(b, add("n", 1)), i64(6)) << "another client has not greeted so";
  ask(a, numbered(RequestKind::ping, {}, 7));
  EXPECT_EQ(ask(a, add("n", 1)), ready + i64(7)) << "nor does another number end it";
  ask(b, request(RequestKind::set, "text", "text"));
  EXPECT_EQ(ask(a, add("text", 1)), byte(answer_no_number));
  EXPECT_EQ(ask(a, request(RequestKind::get, "text")), text("text"));
  EXPECT_EQ(ask(a, numbered(RequestKind::barrier, "ring", 1)), stop)
      << "BARRIER adds, too, but answers no sum";
  EXPECT_FALSE(a.refused);

  StoreLimits limits;
  limits.total_bytes = 10;
  Table small(limits);
  deliver(&b, small.apply(b, numbered(RequestKind::ping, {}, ping_of_dlaunch)));
  take(b);
  deliver(&b, small.apply(b, add("a long name", 1)));
  EXPECT_EQ(take(b), byte(answer_store_full));
  EXPECT_FALSE(b.refused);
}

// Waiting.

TEST_F(TableTest, WaitForNothingEndsAtOnce) { EXPECT_EQ(ask(a, wait({})), stop); }

TEST_F(TableTest, WaitEndsWhenTheLastKeyComes) {
  ask(a, set("1"));
  EXPECT_EQ(ask(b, wait({"1", "2", "3", "2"})), "");
  ask(a, set("3"));
  EXPECT_EQ(take(b), "");
  ask(a, set("3"));  // again: counts once
  EXPECT_EQ(take(b), "");
  ask(a, set("2"));
  EXPECT_EQ(take(b), stop);
  ask(a, set("2"));
  EXPECT_EQ(take(b), "");  // one answer a wait
  EXPECT_EQ(table.waiting(), 0U);
}

TEST_F(TableTest, WaitLooksAtAllKeysAgain) {
  ask(b, wait({"1", "2"}));
  ask(a, set("1"));
  ask(a, remove("1"));
  ask(a, set("2"));
  EXPECT_EQ(take(b), "");  // the first is not there any more
  ask(a, set("1"));
  EXPECT_EQ(take(b), stop);
}

TEST_F(TableTest, DeletingDoesNotDisturbWaiters) {
  ask(b, wait({"k"}));
  EXPECT_EQ(ask(a, remove("k")), i64(0));
  EXPECT_EQ(take(b), "");
  ask(a, set("k"));
  EXPECT_EQ(take(b), stop);
}

TEST_F(TableTest, AllWaitersWakeInTheOrderTheyCame) {
  ask(b, wait({"k"}));
  ask(c, wait({"k"}));
  const Table::Outcome& outcome = table.apply(a, set("k"));
  EXPECT_EQ(outcome.woken, (std::vector<Table::Client*>{&b, &c}));
}

TEST_F(TableTest, CancellingIsAlwaysAnswered) {
  EXPECT_EQ(ask(b, request(RequestKind::cancel_wait)), cancelled);
  ask(b, wait({"k"}));
  EXPECT_EQ(ask(b, request(RequestKind::cancel_wait)), cancelled);
  ask(a, set("k"));
  EXPECT_EQ(take(b), "");  // no late answer
  EXPECT_EQ(ask(b, wait({"k"})), stop);
  EXPECT_EQ(ask(b, request(RequestKind::cancel_wait)), cancelled);  // crossed the answer
}

// 1.13 gives up a wait without a word: its next request tells.
TEST_F(TableTest, ANewRequestEndsTheWait) {
  ask(b, wait({"k"}));
  EXPECT_EQ(ask(b, request(RequestKind::num_keys)), i64(0));
  EXPECT_EQ(table.waiting(), 0U);
  ask(a, set("k"));
  EXPECT_EQ(take(b), "");
}

TEST_F(TableTest, ForgottenClientNoLongerWaits) {
  ask(b, wait({"k"}));
  ask(c, wait({"k"}));
  leave(b);
  EXPECT_EQ(table.waiting(), 1U);
  ask(a, set("k"));
  EXPECT_EQ(take(b), "");
  EXPECT_EQ(take(c), stop);
}

// Queues.

TEST_F(TableTest, QueueGivesTheOldestFirst) {
  EXPECT_EQ(ask(a, pop("q")), i64(0));
  EXPECT_EQ(ask(a, request(RequestKind::queue_len, "q")), i64(0));
  ask(a, push("q", "1"));
  ask(a, push("q", ""));
  EXPECT_EQ(ask(a, check({"q"})), ready);
  EXPECT_EQ(ask(a, wait({"q"})), stop);
  EXPECT_EQ(ask(a, request(RequestKind::queue_len, "q")), i64(2));
  EXPECT_EQ(ask(a, get("q")), text(""));  // no key
  EXPECT_EQ(ask(a, remove("q")), i64(0));
  EXPECT_EQ(ask(a, pop("q")), i64(2) + text("1"));
  EXPECT_EQ(ask(a, pop("q")), i64(1) + text(""));
  EXPECT_EQ(ask(a, pop("q")), i64(0));
  EXPECT_EQ(ask(a, check({"q"})), not_ready);
}

TEST_F(TableTest, OnePushWakesOneWaiter) {
  ask(b, wait({"q"}));
  ask(c, wait({"q"}));
  ask(a, push("q", "1"));
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(take(c), "");
  ask(a, push("q", "2"));
  EXPECT_EQ(take(c), stop);
  EXPECT_EQ(ask(b, pop("q")), i64(2) + text("1"));
  EXPECT_EQ(ask(c, pop("q")), i64(1) + text("2"));
}

TEST_F(TableTest, AWaiterWokenByAPushIsForgotten) {
  ask(b, wait({"q"}));
  ask(a, push("q", "1"));
  EXPECT_EQ(take(b), stop);
  ask(b, pop("q"));
  ask(b, wait({"unrelated"}));
  ask(a, push("q", "2"));
  EXPECT_EQ(take(b), "");
  ask(a, set("unrelated"));
  EXPECT_EQ(take(b), stop);
}

TEST_F(TableTest, AQueueAndAKeyTogether) {
  ask(a, push("q", "1"));
  ask(b, wait({"q", "k"}));
  ask(a, set("k"));
  EXPECT_EQ(take(b), stop);
  ask(a, remove("k"));
  ask(a, pop("q"));
  ask(b, wait({"q", "k"}));
  ask(a, push("q", "1"));
  EXPECT_EQ(take(b), "");
  ask(a, set("k"));
  EXPECT_EQ(take(b), stop);
}

// The one that was woken does not pop: the value must not lie there while another waits for it.
TEST_F(TableTest, AnOfferNotTakenGoesToTheNext) {
  ask(b, wait({"q"}));
  ask(c, wait({"q"}));
  ask(a, push("q", "1"));
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(b, request(RequestKind::cancel_wait)), cancelled);
  EXPECT_EQ(take(c), stop);
  leave(c);
  EXPECT_EQ(ask(b, wait({"q"})), stop);  // still there for whoever asks
}

TEST_F(TableTest, OfferToAForgottenClientGoesToTheNext) {
  ask(b, wait({"q"}));
  ask(c, wait({"q"}));
  ask(a, push("q", "1"));
  leave(b);
  EXPECT_EQ(take(c), stop);
}

TEST_F(TableTest, AKeyOfAQueuesNameWakesTheRest) {
  ask(b, wait({"q"}));
  ask(c, wait({"q"}));
  ask(a, push("q", "1"));
  ask(a, set("q"));
  EXPECT_EQ(take(c), stop);
}

// Barrier.

TEST_F(TableTest, BarrierOpensForTheLast) {
  EXPECT_EQ(ask(a, barrier("b", 3)), "");
  EXPECT_EQ(ask(b, barrier("b", 3)), "");
  EXPECT_EQ(ask(c, barrier("b", 3)), stop);
  EXPECT_EQ(take(a), stop);
  EXPECT_EQ(take(b), stop);
  EXPECT_EQ(ask(a, barrier("b", 3)), stop);  // the count is never taken back
  EXPECT_EQ(ask(a, get("b")), text("4"));
}

TEST_F(TableTest, APendingWaitGoesOnWithTheLastArrival) {
  ask(c, wait({"b"}));
  ask(a, barrier("b", 2));
  EXPECT_EQ(take(c), "") << "PyTorch's does not go on with the first";
  EXPECT_EQ(ask(b, barrier("b", 2)), stop);
  EXPECT_EQ(take(c), stop);
  EXPECT_EQ(take(a), stop);
}

TEST_F(TableTest, AWaitThatABarrierKeptBackIsNotForgotten) {
  ask(c, wait({"b"}));
  ask(a, barrier("b", 3));
  ask(b, set("b", "1"));
  EXPECT_EQ(take(c), stop) << "the key was written";
  ask(c, wait({"new"}));
  ask(b, barrier("new", 1));
  EXPECT_EQ(take(c), stop) << "the first arrival is the last";
  for (const Request& write : {add("k", 1), request(RequestKind::append, "k", "0"), compare("k", "1", "2")}) {
    ask(c, wait({"k"}));
    ask(a, barrier("k", 2));
    EXPECT_EQ(take(c), "");
    ask(b, write);
    EXPECT_EQ(take(c), stop);
    ask(b, remove("k"));
  }
  ask(c, wait({"gone"}));
  ask(a, barrier("gone", 2));
  ask(b, remove("gone"));
  ask(b, set("gone"));
  EXPECT_EQ(take(c), stop) << "as any key that appears";
}

TEST_F(TableTest, ABarriersKeyIsAKey) {
  ask(a, barrier("b", 2));
  EXPECT_EQ(ask(b, wait({"b"})), stop) << "a wait that begins after the first arrival";
  EXPECT_EQ(ask(b, check({"b"})), ready);
  ask(b, set("b", "text"));
  ask(b, barrier("b", 2));
  EXPECT_TRUE(b.refused);
  EXPECT_EQ(take(a), "");
}

TEST_F(TableTest, ACancelledBarrierStaysCounted) {
  ask(a, barrier("b", 2));
  EXPECT_EQ(ask(a, request(RequestKind::cancel_wait)), cancelled);
  EXPECT_EQ(ask(b, barrier("b", 2)), stop);
  EXPECT_EQ(take(a), "");
}

// Watching (1.13).

TEST_F(TableTest, WatchersAreNotifiedOfEveryChange) {
  EXPECT_EQ(ask(b, request(RequestKind::watch_key, "k")), byte(answer_watching));
  EXPECT_EQ(ask(b, request(RequestKind::watch_key, "k")), byte(answer_watching));  // once is enough
  const auto notification = [](WatchEvent event, std::string_view before, std::string_view after) {
    return byte(static_cast<std::uint8_t>(event)) + text("k") + text(before) + text(after);
  };
  ask(a, set("k", "1"));
  EXPECT_EQ(take(b), notification(WatchEvent::created, "", "1"));
  ask(a, add("k", 1));
  EXPECT_EQ(take(b), notification(WatchEvent::updated, "1", "2"));
  ask(a, compare("k", "wrong", "3"));
  EXPECT_EQ(take(b), "");
  ask(a, compare("k", "2", "3"));
  EXPECT_EQ(take(b), notification(WatchEvent::updated, "2", "3"));
  ask(a, request(RequestKind::append, "k", "0"));
  EXPECT_EQ(take(b), notification(WatchEvent::updated, "3", "30"));
  ask(a, remove("k"));
  EXPECT_EQ(take(b), notification(WatchEvent::deleted, "30", ""));
  leave(b);
  ask(a, set("k", "1"));
  EXPECT_EQ(take(b), "");
}

// Limits.

TEST_F(TableTest, CountsItsBytesBackToNothing) {
  ask(a, set("k", std::string(1000, 'x')));
  EXPECT_GE(table.bytes(), 1000U);
  ask(a, set("k", "short"));
  EXPECT_LT(table.bytes(), 1000U);
  ask(a, push("q", "value"));
  ask(b, wait({"never", "ever"}));
  ask(c, barrier("b", 2));
  ask(c, request(RequestKind::watch_key, "k"));
  ask(a, request(RequestKind::append, "k", "er"));
  ask(a, remove("k"));
  ask(a, remove("b"));
  ask(a, pop("q"));
  leave(b);
  leave(c);
  EXPECT_EQ(table.bytes(), 0U);
  EXPECT_EQ(table.waiting(), 0U);
}

// What is replaced, deleted or popped counts for as long as an answer carries it.
TEST_F(TableTest, CountsWhatAnswersStillCarry) {
  std::vector<SharedBytes> carried;
  const auto carry = [&](const Request& request) {
    encode(table.apply(a, request).answer, [&](const auto& piece) {
      if constexpr (std::is_same_v<std::decay_t<decltype(piece)>, SharedBytes>) carried.push_back(piece);
    });
  };
  for (const char value : {'x', 'y', 'z'}) {
    ask(b, set("k", std::string(1000, value)));
    carry(get("k"));
  }
  ask(b, request(RequestKind::append, "k", "more"));
  carry(listing(RequestKind::multi_get, {"k", "k", "none"}));
  ask(b, remove("k"));
  ask(b, push("q", std::string(1000, 'q')));
  carry(pop("q"));
  ask(b, get("none"));
  ASSERT_EQ(carried.size(), 6U);
  EXPECT_EQ(table.bytes(), 5004U) << "x, y, z, what z has become, and q";
  EXPECT_EQ(carried[0].view(), std::string(1000, 'x')) << "does not change under an answer";
  EXPECT_EQ(carried[2].view(), std::string(1000, 'z'));
  EXPECT_EQ(carried[3].view(), std::string(1000, 'z') + "more");
  carried.erase(carried.begin() + 3);
  EXPECT_EQ(table.bytes(), 5004U);
  carried.clear();
  EXPECT_EQ(table.bytes(), 0U);
}

TEST_F(TableTest, ANewValueIsRefusedWhileAnswersCarryTheOldOnes) {
  StoreLimits limits;
  limits.total_bytes = 2'500;
  Table small(limits);
  ASSERT_EQ(small.apply(a, set("k", std::string(1000, 'x'))).answer.kind, Answer::Kind::none);
  std::optional<SharedBytes> carried = *small.apply(a, get("k")).answer.bytes.shared;
  ASSERT_EQ(small.apply(a, set("k", std::string(1000, 'y'))).answer.kind, Answer::Kind::none);
  std::optional<SharedBytes> more = *small.apply(a, get("k")).answer.bytes.shared;
  EXPECT_EQ(small.apply(a, set("k", std::string(1000, 'z'))).answer.kind, Answer::Kind::refused);
  carried.reset();
  EXPECT_EQ(small.apply(a, set("k", std::string(1000, 'z'))).answer.kind, Answer::Kind::none);
}

TEST_F(TableTest, RefusesWhatIsTooMuch) {
  StoreLimits limits;
  limits.total_bytes = 10'000;
  limits.value_bytes = 6'000;
  limits.answer_bytes = 8'000;
  Table small(limits);
  const std::string half(5'000, 'x');
  const auto refused = [&](const Request& request) {
    return small.apply(a, request).answer.kind == Answer::Kind::refused;
  };
  EXPECT_FALSE(refused(set("k", half)));
  EXPECT_TRUE(refused(set("l", half)));
  EXPECT_TRUE(refused(push("q", half)));
  EXPECT_TRUE(refused(request(RequestKind::append, "k", std::string(1'001, 'y'))));
  EXPECT_TRUE(refused(compare("l", "", half)));
  EXPECT_TRUE(refused(listing(RequestKind::multi_set, {"l", "m"}, {"small", half})));
  EXPECT_TRUE(refused(listing(RequestKind::multi_get, {"k", "k"})));
  EXPECT_TRUE(refused(wait({half})));
  EXPECT_EQ(small.keys(), 1U);
  EXPECT_FALSE(refused(set("k", "")));
  EXPECT_FALSE(refused(set("l", half)));
}

}  // namespace
}  // namespace dlaunch::store
