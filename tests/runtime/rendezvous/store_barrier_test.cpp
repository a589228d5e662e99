// A barrier through the store: who is missing, who comes late, who has left.

#include "runtime/rendezvous/store_barrier.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "store/client/hash_store.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_threads;
using test::soon;
using Latecomers = StoreBarrier::Latecomers;
using Ranks = std::vector<int>;

Deadline shortly() { return deadline_after(std::chrono::milliseconds(50)); }

// Complains about statements that are not all "s".
StoreBarrier::Options options(Deadline deadline, std::string statement = "s") {
  return {.statement = std::move(statement),
          .deadline = deadline,
          .judge =
              [](const std::vector<std::string>& all) {
                std::string text;
                for (const std::string& one : all) text += one == "s" ? "" : "wrong: " + one + ";";
                return text;
              },
          .name_missing = [](const Ranks& missing) { return "missing: " + describe_ranks(missing); },
          .check = [] {},
          .departed = [] { return Ranks(); }};
}

TEST(StoreBarrier, LeavesNothingBehindButTheLastMeetings) {
  const auto store = std::make_shared<HashStore>();
  const auto errors = test::on_threads(3, [&](int rank) {
    StoreBarrier store_barrier(store, rank, 3, StoreBarrier::Latecomers::get_the_decision);
    for (int i = 0; i < 20; ++i) {
      const StoreBarrier::Decision decision =
          store_barrier.synchronize({.statement = "s",
                                     .deadline = test::soon(),
                                     .judge =
                                         [](const std::vector<std::string>& said) {
                                           return said == std::vector<std::string>(3, "s") ? "" : "wrong";
                                         },
                                     .name_missing = [](const std::vector<int>&) { return "missing"; },
                                     .check = [] {},
                                     .departed = [] { return std::vector<int>(); }});
      EXPECT_EQ(decision.text, "");
    }
  });
  test::expect_success(errors);
  EXPECT_LE(store->num_keys(), 3 + 2);
}

TEST(StoreBarrier, AllGetTheDecisionOfRankZero) {
  const auto store = std::make_shared<HashStore>();
  expect_success(on_threads(4, [&](int rank) {
    StoreBarrier barrier(store, rank, 4, Latecomers::get_the_decision);
    const std::string statement = rank == 2 ? "other\nlines" : rank == 3 ? "" : "s";
    const StoreBarrier::Decision decision = barrier.synchronize(options(soon(), statement));
    EXPECT_EQ(decision.text, "wrong: other\nlines;wrong: ;");
    EXPECT_EQ(decision.missing, Ranks{});
    EXPECT_EQ(barrier.synchronize(options(soon())).text, "");  // the next round begins anew
  }));
}

// The ranks that are there agree, though their deadlines differ.
TEST(StoreBarrier, NamesTheMissingOnEveryRank) {
  for (const auto kind : {Latecomers::get_the_decision, Latecomers::wait_for_next_round}) {
    const auto store = std::make_shared<HashStore>();
    std::latch registered(1);
    expect_success(on_threads(2, [&](int rank) {
      StoreBarrier barrier(store, rank, 4, kind);
      if (rank == 0) registered.wait();
      StoreBarrier::Options call = options(rank == 0 ? shortly() : soon());
      bool has_waited = false;  // it has registered then
      call.check = [&] {
        if (rank == 1 && !std::exchange(has_waited, true)) registered.count_down();
      };
      const StoreBarrier::Decision decision = barrier.synchronize(call);
      EXPECT_EQ(decision.missing, (Ranks{2, 3}));
      EXPECT_EQ(decision.text, "missing: ranks 2, 3");
    }));
  }
}

TEST(StoreBarrier, NamesRankZeroIfThatIsMissing) {
  StoreBarrier barrier(std::make_shared<HashStore>(), 1, 2, Latecomers::wait_for_next_round);
  const StoreBarrier::Decision decision = barrier.synchronize(options(shortly()));
  EXPECT_EQ(decision.missing, Ranks{0});
  EXPECT_EQ(decision.text, "missing: rank 0");
}

// It finds itself among the missing of its own n-th round.
TEST(StoreBarrier, ALatecomerGetsTheDecision) {
  const auto store = std::make_shared<HashStore>();
  StoreBarrier first(store, 0, 2, Latecomers::get_the_decision);
  EXPECT_EQ(first.synchronize(options(shortly())).missing, Ranks{1});
  expect_success(on_threads(2, [&](int rank) {
    if (rank == 0) {
      EXPECT_EQ(first.synchronize(options(soon())).text, "");
      return;
    }
    StoreBarrier late(store, 1, 2, Latecomers::get_the_decision);
    EXPECT_EQ(late.synchronize(options(soon())).missing, Ranks{1});
    EXPECT_EQ(late.synchronize(options(soon())).text, "");
  }));
}

TEST(StoreBarrier, ALatecomerWaitsForTheNextRound) {
  const auto store = std::make_shared<HashStore>();
  StoreBarrier first(store, 0, 2, Latecomers::wait_for_next_round);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first.synchronize(options(shortly())).missing, Ranks{1});
  expect_success(on_threads(2, [&](int rank) {
    StoreBarrier late(store, 1, 2, Latecomers::wait_for_next_round);
    const StoreBarrier::Decision decision = (rank == 0 ? first : late).synchronize(options(soon()));
    EXPECT_EQ(decision.missing, Ranks{});
    EXPECT_EQ(decision.text, "");
  }));
}

// A rank whose deadline has passed is not in the round any more, and may come back.
TEST(StoreBarrier, ARankThatGaveUpIsWaitedForAgain) {
  const auto store = std::make_shared<HashStore>();
  std::latch given_up(1);
  expect_success(on_threads(2, [&](int rank) {
    StoreBarrier barrier(store, rank, 2, Latecomers::wait_for_next_round);
    if (rank == 1) {
      EXPECT_EQ(barrier.synchronize(options(shortly())).text, "missing: rank 0");
      given_up.count_down();
      EXPECT_EQ(barrier.synchronize(options(soon())).text, "");
      return;
    }
    given_up.wait();
    EXPECT_EQ(barrier.synchronize(options(soon())).text, "");
  }));
}

TEST(StoreBarrier, ARankThatHasLeftIsNotWaitedFor) {
  for (const int rank : {0, 1}) {
    StoreBarrier barrier(std::make_shared<HashStore>(), rank, 3, Latecomers::get_the_decision);
    StoreBarrier::Options call = options(soon());
    call.departed = [&] { return rank == 0 ? Ranks{1, 2} : Ranks{0}; };
    const StoreBarrier::Decision decision = barrier.synchronize(call);
    EXPECT_EQ(decision.missing, rank == 0 ? (Ranks{1, 2}) : Ranks{0});
    EXPECT_EQ(decision.text, rank == 0 ? "ranks 1, 2 have left the group" : "rank 0 has left the group");
  }
}

// It arrived before it left.
TEST(StoreBarrier, ARankThatLeavesAfterItsArrivalIsNotMissing) {
  const auto store = std::make_shared<HashStore>();
  std::latch gone(1);
  expect_success(on_threads(3, [&](int rank) {
    StoreBarrier barrier(store, rank, 3, Latecomers::get_the_decision);
    StoreBarrier::Options call = options(soon());
    if (rank == 1) {
      call.check = [] { throw std::runtime_error("it leaves"); };
      EXPECT_THROW(barrier.synchronize(call), std::runtime_error);
      gone.count_down();
      return;
    }
    gone.wait();
    call.departed = [] { return Ranks{1}; };
    EXPECT_EQ(barrier.synchronize(call).text, "");
  }));
}

TEST(StoreBarrier, ALossEndsTheWaitOnEveryRank) {
  for (const int rank : {0, 1}) {
    StoreBarrier barrier(std::make_shared<HashStore>(), rank, 2, Latecomers::get_the_decision);
    StoreBarrier::Options call = options(soon());
    int checks = 0;
    call.check = [&] {
      if (++checks == 2) throw std::runtime_error("a rank is lost");
    };
    EXPECT_THROW(barrier.synchronize(call), std::runtime_error);
  }
}

TEST(StoreBarrierDecision, ComesBackFromItsText) {
  const StoreBarrier::Decision decisions[] = {
      {{}, ""}, {{}, "two\nlines"}, {{0}, "x"}, {{1, 4, 1000000}, "1,2,\n"}, {{3}, ""}};
  for (const StoreBarrier::Decision& decision : decisions) {
    const auto back = StoreBarrier::Decision::decode(decision.encode());
    EXPECT_EQ(back.missing, decision.missing);
    EXPECT_EQ(back.text, decision.text);
  }
  EXPECT_EQ(StoreBarrier::Decision::decode("").text, "");
}

}  // namespace
}  // namespace dlaunch::internal
