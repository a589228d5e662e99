// What a call of new_group asks for.

#include "runtime/group/group_plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using Ranks = std::vector<int>;

TEST(CheckedMembers, AreSortedAndAllIfNoneAreNamed) {
  EXPECT_EQ(checked_members({3, 0, 2}, 4), (Ranks{0, 2, 3}));
  EXPECT_EQ(checked_members({}, 3), (Ranks{0, 1, 2}));
  EXPECT_EQ(checked_members({0}, 1), Ranks{0});
}

TEST(CheckedMembers, AreInTheWorldAndOccurOnce) {
  const std::string range = " are not all in range for a world of 3 ranks";
  EXPECT_EQ(error_of([] { checked_members({1, -1}, 3); }), "new_group: the ranks -1, 1" + range);
  EXPECT_EQ(error_of([] { checked_members({3}, 3); }), "new_group: the ranks 3" + range);
  EXPECT_EQ(error_of([] { checked_members({2, 0, 2}, 3); }), "new_group: a rank occurs twice in 0, 2, 2");
}

TEST(HashOfRanks, DependsOnEachRankAndItsPlace) {
  std::set<std::string> hashes;
  const std::vector<Ranks> sets = {{0}, {1}, {0, 1}, {0, 2}, {1, 2}, {0, 1, 2}, {1, 0}, {}};
  for (const Ranks& ranks : sets) EXPECT_TRUE(hashes.insert(hash_of(ranks)).second);
  EXPECT_EQ(hash_of({0, 1}), hash_of({0, 1}));
}

std::shared_ptr<GroupImpl> world_of_four(int rank) {
  GroupDescription description{"default", rank, 4, std::chrono::seconds(60), "threads"};
  description.hosts = {"a", "b", "c", "d"};
  description.compares = {true, false, true, false};
  return std::make_shared<GroupImpl>(std::move(description), std::vector<GroupImpl::DeviceBackend>{});
}

TEST(PlanGroup, OfAMemberHasItsPlaceAmongTheMembers) {
  const auto world = world_of_four(3);
  const GroupPlan plan = plan_group("tp", {3, 0, 1}, {}, *world);
  EXPECT_EQ(plan.description.name, "tp");
  EXPECT_EQ(plan.description.rank, 2);
  EXPECT_EQ(plan.description.global_rank, 3);
  EXPECT_EQ(plan.description.size, 3);
  EXPECT_EQ(plan.description.ranks, (Ranks{0, 1, 3}));
  EXPECT_EQ(plan.description.timeout, std::chrono::seconds(60));
  EXPECT_EQ(plan.description.backend, "threads");
  EXPECT_EQ(plan.description.hosts, (std::vector<std::string>{"a", "b", "d"}));
  EXPECT_EQ(plan.description.compares, (std::vector<bool>{true, false, false}));
  ASSERT_EQ(plan.modules.size(), 1U);
  EXPECT_STREQ(plan.modules[0].module->name, "threads");
}

TEST(PlanGroup, OfANonMemberHasNoRank) {
  const GroupPlan plan = plan_group("tp", {0, 1}, {}, *world_of_four(2));
  EXPECT_EQ(plan.description.rank, -1);
  EXPECT_EQ(plan.description.global_rank, 2);
  EXPECT_EQ(plan.description.size, 2);
}

TEST(PlanGroup, OptionsTakePrecedenceOverTheWorld) {
  const auto world = world_of_four(0);
  world->set_timeout(std::chrono::seconds(5));
  EXPECT_EQ(plan_group("g", {}, {}, *world).description.timeout, std::chrono::seconds(5));
  NewGroupOptions options;
  options.timeout = std::chrono::seconds(7);
  options.backend = "CPU:Threads";
  const GroupPlan plan = plan_group("g", {}, options, *world);
  EXPECT_EQ(plan.description.timeout, std::chrono::seconds(7));
  EXPECT_EQ(plan.description.backend, "cpu:threads");
}

TEST(PlanGroup, WrongOptionsAreErrors) {
  const auto world = world_of_four(0);
  NewGroupOptions options;
  options.timeout = std::chrono::milliseconds(0);
  EXPECT_EQ(error_of([&] { plan_group("g", {}, options, *world); }),
            "new_group: the timeout must be longer than 0 ms");
  options.timeout = {};
  options.backend = "smoke";
  EXPECT_TRUE(error_of([&] { plan_group("g", {}, options, *world); }).starts_with("unknown backend 'smoke'"));
  EXPECT_THROW(plan_group("g", {4}, {}, *world), DistError);
}

}  // namespace
}  // namespace dlaunch::internal
