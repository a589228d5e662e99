// What waits in a table: for keys, for a queue, at a barrier, for changes.

#include <gtest/gtest.h>

#include <vector>

#include "tests/store/server/table_fixture.h"

namespace dlaunch::store {
namespace {

using namespace test;

// --- keys ---

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

// --- queues ---

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

// --- barriers ---

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

// --- watches, which clients of PyTorch 1.13 use ---

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

}  // namespace
}  // namespace dlaunch::store
