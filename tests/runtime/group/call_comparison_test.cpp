// Whether all ranks make the same call.

#include "runtime/group/call_comparison.h"

#include <gtest/gtest.h>

#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::expect_success;
using test::on_threads;
using test::soon;

GroupDescription description(int rank, int size) {
  return {"test", rank, size, std::chrono::seconds(60), "threads"};
}
CallComparison::Peers all_live() {
  return {[] {}, [] { return std::vector<int>(); }};
}
CallComparison::Call call_of(const std::string& statement, Deadline deadline = soon()) {
  return {statement.substr(0, statement.find('\n')), statement, deadline};
}

TEST(CallComparison, ComparesCallAfterCall) {
  const auto store = std::make_shared<HashStore>();
  expect_success(on_threads(3, [&](int rank) {
    const GroupDescription group = description(rank, 3);
    CallComparison comparison(group, store, all_live());
    for (int i = 0; i < 10; ++i) comparison.compare(call_of("barrier " + std::to_string(i)));
    const std::string error =
        error_of([&] { comparison.compare(call_of(rank == 1 ? "broadcast()" : "barrier()")); });
    EXPECT_EQ(error,
              "the ranks call different operations: ranks 0, 2 call barrier(); rank 1 calls broadcast()");
    comparison.compare(call_of("barrier()"));  // the ranks still count alike
  }));
}

// Most ranks are right; with no majority the one with the lowest rank is named first.
TEST(CallComparison, NamesTheMostCommonCallFirst) {
  const auto error_with = [](const std::vector<std::string>& calls) {
    const auto store = std::make_shared<HashStore>();
    std::vector<std::string> errors(calls.size());
    expect_success(on_threads(static_cast<int>(calls.size()), [&](int rank) {
      const GroupDescription group = description(rank, static_cast<int>(calls.size()));
      CallComparison comparison(group, store, all_live());
      const auto place = static_cast<std::size_t>(rank);
      errors[place] = error_of([&] { comparison.compare(call_of(calls[place])); });
    }));
    for (const std::string& error : errors) EXPECT_EQ(error, errors[0]);
    return errors[0];
  };
  const std::string start = "the ranks call different operations: ";
  EXPECT_EQ(error_with({"z", "a"}), start + "rank 0 calls z; rank 1 calls a");
  EXPECT_EQ(error_with({"z", "a", "a", "b"}), start + "ranks 1, 2 call a; rank 0 calls z; rank 3 calls b");
}

TEST(CallComparison, ComparesTheSplitsOfEqualCalls) {
  const auto store = std::make_shared<HashStore>();
  expect_success(on_threads(2, [&](int rank) {
    const GroupDescription group = description(rank, 2);
    CallComparison comparison(group, store, all_live());
    comparison.compare(call_of(rank == 0 ? "all_to_all()\n1 1 5 2" : "all_to_all()\n2 5 1 1"));
    EXPECT_EQ(error_of([&] {
                comparison.compare(call_of(rank == 0 ? "all_to_all()\n1 1 5 2" : "all_to_all()\n3 5 1 1"));
              }),
              "the sizes do not match: rank 0 sends 2 elements to rank 1, which expects 3");
  }));
}

// The error blames a rank that is missing, on every rank, and says if that rank does not compare at all.
TEST(CallComparison, NamesTheRanksThatDoNotCome) {
  const auto store = std::make_shared<HashStore>();
  std::latch registered(1);
  expect_success(on_threads(2, [&](int rank) {
    GroupDescription group = description(rank, 4);
    group.compares = {true, true, true, false};
    // A rank that waits has registered.
    bool has_waited = false;
    CallComparison comparison(group, store,
                              {[&] {
                                 if (rank == 1 && !std::exchange(has_waited, true)) registered.count_down();
                               },
                               [] { return std::vector<int>(); }});
    if (rank == 0) registered.wait();
    try {
      comparison.compare(
          call_of("barrier()", rank == 0 ? deadline_after(std::chrono::milliseconds(50)) : soon()));
      ADD_FAILURE();
    } catch (const DistNetworkError& e) {
      EXPECT_EQ(e.context().peer, 2);
      EXPECT_EQ(e.reason(),
                "ranks 2, 3 did not call anything before the deadline; this group's other ranks call "
                "barrier(); the calls of rank 3 are not compared: the debug level there was not DETAIL when "
                "the ranks joined");
    }
  }));
}

// A barrier that one rank missed is not counted, and compared calls go on.
TEST(CallComparison, ABarrierIsOutsideOfTheSequence) {
  const auto store = std::make_shared<HashStore>();
  std::latch missed(1);
  expect_success(on_threads(2, [&](int rank) {
    const GroupDescription group = description(rank, 2);
    CallComparison comparison(group, store, all_live());
    const auto name = [](const std::vector<int>& missing) { return "missing: " + describe_ranks(missing); };
    if (rank == 0) {
      EXPECT_EQ(error_of([&] {
                  comparison.barrier(call_of("b", deadline_after(std::chrono::milliseconds(20))), name);
                }),
                "peer 1: missing: rank 1");
      missed.count_down();
    }
    missed.wait();
    comparison.compare(call_of("barrier()"));
    comparison.barrier(call_of("b"), name);
  }));
}

TEST(CallComparison, ARankThatHasLeftIsNotWaitedFor) {
  const GroupDescription group = description(0, 2);
  CallComparison comparison(group, std::make_shared<HashStore>(),
                            {[] {}, [] { return std::vector<int>{1}; }});
  EXPECT_EQ(error_of([&] { comparison.compare(call_of("barrier()")); }), "peer 1: rank 1 has left the group");
}

TEST(CallComparison, ALostRankEndsTheWait) {
  const GroupDescription group = description(0, 2);
  CallComparison comparison(
      group, std::make_shared<HashStore>(),
      {[] { throw DistNetworkError(it_died, {.peer = 1}); }, [] { return std::vector<int>(); }});
  EXPECT_EQ(error_of([&] { comparison.compare(call_of("barrier()")); }),
            "peer 1: it died, or the connection to it was lost");
}

TEST(CallComparison, NeedsAStoreAndOtherRanks) {
  const GroupDescription two = description(0, 2);
  CallComparison without_store(two, nullptr, all_live());
  without_store.compare(call_of("barrier()"));
  const auto store = std::make_shared<HashStore>();
  const GroupDescription one = description(0, 1);
  CallComparison alone(one, store, all_live());
  alone.compare(call_of("barrier()"));
  EXPECT_EQ(store->num_keys(), 0);
}

}  // namespace
}  // namespace dlaunch::internal
