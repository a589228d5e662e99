// How the ranks of a new group meet, and the errors if they do not.

#include "runtime/rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "store/client/hash_store.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using std::chrono::milliseconds;
using test::error_of;
using test::soon;

// Of members that are called 10, 11, ...
RendezvousOptions rendezvous_options(int rank, int size, Deadline deadline = soon()) {
  RendezvousOptions result{.call = "play",
                           .statement = "these rules",
                           .self = 10 + rank,
                           .rank = rank,
                           .members = std::vector<int>(static_cast<std::size_t>(size)),
                           .deadline = deadline};
  std::iota(result.members.begin(), result.members.end(), 10);
  return result;
}

RendezvousOptions with_rules(RendezvousOptions self, const std::string& rules) {
  self.statement = rules;
  return self;
}

TEST(Rendezvous, ReturnsTheHostsWhenAllAreHere) {
  HashStore store;
  const auto errors = test::on_threads(
      5, [&](int rank) { EXPECT_EQ(rendezvous(store, rendezvous_options(rank, 5)).size(), 5U); });
  test::expect_success(errors);
}

// Comes, and dies without a word to the others.
void arrive(HashStore& store, RendezvousOptions self) {
  self.check = [] { throw std::runtime_error("died"); };
  EXPECT_THROW(rendezvous(store, self), std::runtime_error);
}

std::string who_is_missing(int present, int size) {
  HashStore store;
  for (int rank = 1; rank < present; ++rank) arrive(store, rendezvous_options(rank, size));
  return error_of([&] { rendezvous(store, rendezvous_options(0, size, deadline_after(milliseconds(1)))); });
}

TEST(Rendezvous, TimeoutNamesTheMissingRanks) {
  const std::string start = ": not all ranks came before the deadline; missing: ";
  EXPECT_EQ(who_is_missing(2, 3), "peer 12" + start + "rank 12 of 3");
  EXPECT_EQ(who_is_missing(1, 4), "peer 11" + start + "ranks 11, 12, 13 of 4");
  EXPECT_EQ(who_is_missing(1, 100),
            "peer 11" + start +
                "ranks 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26 "
                "and 83 more of 100");
}

// Its deadline was the same, and passed a moment before the other's.
TEST(Rendezvous, RankThatJustTimedOutIsNotMissing) {
  HashStore store;
  const auto give_up = [&](int rank) {
    return error_of(
        [&] { rendezvous(store, rendezvous_options(rank, 3, deadline_after(milliseconds(20)))); });
  };
  const std::string start = "not all ranks came before the deadline; missing: ";
  EXPECT_TRUE(test::contains(give_up(1), start + "ranks 10, 12 of 3"));
  EXPECT_TRUE(test::contains(give_up(0), start + "rank 12 of 3"));
}

// Not before its deadline, nor once for ever.
TEST(Rendezvous, TimedOutRankMayRetry) {
  HashStore store;
  std::latch two_gave_up(2);
  const auto errors = test::on_threads(3, [&](int rank) {
    if (rank != 2) {
      for (int i = 0; i < 3; ++i) {
        EXPECT_NE(error_of([&] {
                    rendezvous(store, rendezvous_options(rank, 3, deadline_after(milliseconds(20))));
                  }),
                  "no error");
      }
      two_gave_up.count_down();
    }
    two_gave_up.wait();
    rendezvous(store, rendezvous_options(rank, 3));
  });
  test::expect_success(errors);
}

// One that still waits is not disturbed by one that gives up.
TEST(Rendezvous, RankWithTimeLeftKeepsWaiting) {
  HashStore store;
  std::latch gave_up(1);
  const auto errors = test::on_threads(3, [&](int rank) {
    if (rank == 0) {
      EXPECT_NE(
          error_of([&] { rendezvous(store, rendezvous_options(rank, 3, deadline_after(milliseconds(20)))); }),
          "no error");
      gave_up.count_down();
    }
    if (rank == 2) gave_up.wait();
    rendezvous(store, rendezvous_options(rank, 3));
  });
  test::expect_success(errors);
}

// In any order: waiting ranks throw as soon as a rank with another statement comes.
TEST(Rendezvous, MismatchFailsAllRanksAtOnce) {
  HashStore store;
  const auto errors = test::on_threads(3, [&](int rank) {
    rendezvous(store, with_rules(rendezvous_options(rank, 4), rank == 1 ? "other rules" : "these rules"));
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), RendezvousRejected);
    const std::string said = message_of(error);
    EXPECT_TRUE(said.starts_with("the ranks call play differently: rank 1")) << said;
    EXPECT_TRUE(test::contains(said, "rank 11 with other rules")) << said;
    EXPECT_TRUE(test::contains(said, "with these rules")) << said;
    EXPECT_EQ(said, message_of(errors[0]));
  }
}

TEST(Rendezvous, NonMemberOnlyCompares) {
  HashStore store;
  RendezvousOptions outsider = rendezvous_options(0, 2);
  outsider.self = 7;
  outsider.rank = -1;
  EXPECT_TRUE(rendezvous(store, outsider).empty());
  const std::string differing =
      "the ranks call play differently: rank 7 with these rules, rank 8 with others";
  outsider.self = 8;
  EXPECT_EQ(error_of([&] { rendezvous(store, with_rules(outsider, "others")); }), differing);
  EXPECT_EQ(error_of([&] { rendezvous(store, rendezvous_options(0, 2)); }), differing);
}

TEST(Rendezvous, RejectionIsReportedToAll) {
  HashStore store;
  const auto errors = test::on_threads(2, [&](int rank) {
    if (rank == 0) reject_rendezvous(store, 10, "no shoes");
    if (rank == 1) rendezvous(store, rendezvous_options(rank, 2));
  });
  EXPECT_EQ(message_of(errors[1]), "rank 10 cannot take part: no shoes");
}

// The second rank has no check of its own.
TEST(Rendezvous, ALossThatOneNoticesEndsItForAll) {
  HashStore store;
  const auto errors = test::on_threads(2, [&](int rank) {
    RendezvousOptions self = rendezvous_options(rank, 3);
    if (rank == 0) self.check = [] { throw DistNetworkError("it is dead", {.peer = 12, .host = "there"}); };
    rendezvous(store, self);
  });
  EXPECT_EQ(message_of(errors[0]), "peer 12 on there: it is dead");
  EXPECT_EQ(message_of(errors[1]), "peer 12 on there: it is dead");
}

// Rank 2 has come and has ended before rank 3 comes, which throws the same.
TEST(Rendezvous, RankThatDiesIsNamed) {
  HashStore store;
  {
    const std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open("127.0.0.1");
    RendezvousOptions dying = rendezvous_options(2, 4);
    dying.liveness_socket = liveness_socket.get();
    arrive(store, dying);
  }
  const auto wait_for_others = [&](int rank) {
    const std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open("127.0.0.1");
    RendezvousOptions self = rendezvous_options(rank, 4);
    self.liveness_socket = liveness_socket.get();
    rendezvous(store, self);
  };
  auto errors = test::on_threads(2, wait_for_others);
  errors.push_back(test::on_threads(4, [&](int rank) {
    if (rank == 3) wait_for_others(rank);
  })[3]);
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), RendezvousPeerLost);
    const std::string said = message_of(error);
    EXPECT_TRUE(said.starts_with("peer 12 on ")) << said;
    EXPECT_TRUE(said.ends_with(": its process ended while the ranks were joining")) << said;
  }
}

// Otherwise the ranks that wait with it would report a lost store.
TEST(Rendezvous, StoreServerStaysUntilAllHaveReadTheMissingRanks) {
  HashStore store;
  const Deadline deadline = deadline_after(milliseconds(1000));
  const auto errors = test::on_threads(2, [&](int rank) {
    RendezvousOptions self = rendezvous_options(rank, 3, deadline);
    self.serves_store = rank == 0;
    try {
      rendezvous(store, self);
    } catch (const DistNetworkError&) {
      if (rank == 0) {
        EXPECT_EQ(store.add("0/seen", 0), 2);
      }
      throw;
    }
  });
  for (const std::exception_ptr& error : errors) {
    ASSERT_TRUE(error);
    EXPECT_TRUE(test::contains(message_of(error), "missing: rank 12 of 3")) << message_of(error);
  }
}

TEST(Rendezvous, SecondProcessOfOneRankIsRejected) {
  HashStore store;
  arrive(store, rendezvous_options(0, 2));
  EXPECT_TRUE(test::contains(error_of([&] { rendezvous(store, rendezvous_options(0, 2)); }),
                             "two processes have joined as rank 10"));
}

TEST(Absent, FindsWhatIsNotThere) {
  HashStore store;
  std::vector<std::string> keys;
  for (int i = 0; i < 37; ++i) {
    keys.push_back(std::to_string(i));
    if (i != 0 && i != 5 && i != 6 && i != 36) store.set(keys.back(), "");
  }
  EXPECT_EQ(absent_keys(store, keys), (std::vector<int>{0, 5, 6, 36}));
  EXPECT_TRUE(absent_keys(store, {}).empty());
}

}  // namespace
}  // namespace dlaunch::internal
