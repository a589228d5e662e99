// new_group(): an error of one rank is an error of all.

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/group/thread_worlds.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::error_of;
using test::in_world;
using test::sum_over;

TEST(NewGroup, WrongMembersAreRefused) {
  in_world(2, [](int rank) {
    EXPECT_EQ(error_of([] {
                new_group({0, 2});
              }),
              "new_group: the ranks 0, 2 are not all in range for a world of 2 ranks");
    EXPECT_EQ(error_of([] { new_group({-1}); }),
              "new_group: the ranks -1 are not all in range for a world of 2 ranks");
    EXPECT_EQ(error_of([] { new_group({1, 1}); }), "new_group: a rank occurs twice in 1, 1");
    NewGroupOptions options;
    options.backend = "odd";
    EXPECT_TRUE(error_contains([&] { new_group({0}, options); }, "unknown backend 'odd'"));
    options = {};
    options.timeout = std::chrono::milliseconds(0);
    EXPECT_EQ(error_of([&] { new_group({0}, options); }), "new_group: the timeout must be longer than 0 ms");
    const ProcessGroup both = new_group();
    EXPECT_EQ(both.name(), "6");  // each of these was a call, on both ranks
    EXPECT_EQ(sum_over(both, rank), 1);
    EXPECT_EQ(both.timeout(), default_group().timeout());
  });
}

// At once: the deadline is half an hour away.
TEST(NewGroup, ErrorOnOneRankFailsOnAllRanks) {
  in_world(3, [](int rank) {
    const auto hears = [&](const std::string& reason, const std::function<void(bool)>& call) {
      const std::string error = error_of([&] { call(rank == 0); });
      EXPECT_TRUE(test::contains(error, reason)) << error;
      EXPECT_EQ(test::contains(error, "rank 0 cannot take part: "), rank != 0) << error;
      EXPECT_EQ(sum_over(new_group(), 1), 3);  // all together again
    };
    hears("the ranks 0, 99 are not all in range for a world of 3 ranks", [](bool wrong) {
      new_group(wrong ? std::vector{0, 99} : std::vector{0, 1, 2});
    });
    hears("a rank occurs twice in 0, 0", [](bool wrong) {
      new_group(wrong ? std::vector{0, 0} : std::vector{0, 1, 2});
    });
    for (const bool locally : {false, true}) {
      NewGroupOptions options;
      options.use_local_synchronization = locally;
      hears("unknown backend 'odd'", [&](bool wrong) {
        if (wrong) options.backend = "odd";
        new_group({}, options);
      });
      options.backend.clear();
      hears("the timeout must be longer than 0 ms", [&](bool wrong) {
        if (wrong) options.timeout = std::chrono::milliseconds(0);
        new_group({}, options);
      });
    }
    hears("3 ranks cannot be divided into groups of 2", [](bool wrong) { new_subgroups(wrong ? 2 : 1); });
    hears("rank 1 is in two groups", [](bool wrong) {
      const std::vector<std::vector<int>> right = {{0, 1}, {2}};
      const std::vector<std::vector<int>> entangled = {{0, 1}, {1, 2}};
      new_subgroups_by_enumeration(wrong ? entangled : right);
    });
  });
}

TEST(NewGroup, DifferentSubgroupsFailOnAllRanks) {
  in_world(3, [](int rank) {
    const std::vector<std::vector<int>> most = {{0, 1}, {2}};
    const std::vector<std::vector<int>> one = {{0}, {1, 2}};
    EXPECT_TRUE(error_contains([&] { new_subgroups_by_enumeration(rank == 1 ? one : most); },
                               "rank 1 with the groups [0; 1, 2] and the backend threads"));
    EXPECT_EQ(sum_over(new_group(), 1), 3);
  });
}

TEST(NewGroup, DifferentRankListFailsOnAllMembers) {
  in_world(3, [](int rank) {
    // The deadline is half an hour away.
    const std::string error = error_of([&] {
      new_group(rank == 1 ? std::vector{0, 1} : std::vector{0, 1, 2});
    });
    EXPECT_TRUE(error.starts_with("rank " + std::to_string(rank) +
                                  ", new_group #1 of group 1: the ranks call new_group differently: rank "))
        << error;
    EXPECT_TRUE(test::contains(error, "rank 1 with the ranks 0, 1 and the backend cpu:threads")) << error;
    EXPECT_EQ(sum_over(new_group(), 1), 3);
  });
}

TEST(NewGroup, AMemberThatDoesNotComeIsNamed) {
  in_world(3, [](int rank) {
    if (rank != 2) {
      NewGroupOptions options;
      options.timeout = std::chrono::seconds(1);
      // On a busy machine the rank that came may be late for the other: "missing: ranks 1, 2 of 3".
      EXPECT_TRUE(error_contains([&] { new_group({0, 1, 2}, options); }, "2 of 3"));
    }
    barrier();
  });
}

// After an error in one group the others go on.
TEST(NewGroup, AnErrorStaysInItsGroup) {
  in_world(2, [](int rank) {
    const ProcessGroup first = new_group();
    const ProcessGroup second = new_group();
    first.abort("enough");
    EXPECT_TRUE(error_contains([&] { first.barrier(); }, "the group is broken"));
    EXPECT_EQ(sum_over(second, rank), 1);
    destroy_process_group(first);
    EXPECT_EQ(error_of([&] { destroy_process_group(first); }),
              "destroy_process_group: no such group, or it is destroyed already");
    const ProcessGroup third = new_group();
    EXPECT_EQ(sum_over(third, rank), 1);
  });
}

}  // namespace
}  // namespace dlaunch::internal
