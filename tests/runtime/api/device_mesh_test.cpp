// Meshes: over ranks that are threads.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlaunch/device_mesh.h"
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

TEST(Meshes, OfThreeDimensionsCanBeSliced) {
  in_world(8, [](int rank) {
    const DeviceMesh mesh = init_device_mesh("cpu", {2, 2, 2}, {"a", "b", "c"});
    const std::vector<std::string> outer = {"a", "c"};
    const DeviceMesh part = mesh.slice(outer);
    const int b = rank / 2 % 2;
    EXPECT_EQ(part.ranks(), (std::vector<int>{2 * b, 2 * b + 1, 2 * b + 4, 2 * b + 5}));
    EXPECT_EQ(sum_over(part.get_group("c"), 1), 2);
    EXPECT_EQ(sum_over(part.flatten("ac").get_group(0), rank), 8 * b + 10);
  });
}

TEST(Meshes, AGroupIsOne) {
  in_world(3, [](int rank) {
    const ProcessGroup last = new_group({1, 2});
    const DeviceMesh mesh = DeviceMesh::from_group(last, "cpu", "dp");
    EXPECT_EQ(mesh.ranks(), (std::vector<int>{1, 2}));
    EXPECT_EQ(mesh.shape(), std::vector<int>{2});
    EXPECT_EQ(mesh.get_rank(), rank);
    if (rank == 0) {
      EXPECT_EQ(mesh.get_coordinate(), std::nullopt);
      EXPECT_TRUE(error_contains([&] { (void)mesh.get_group(0); }, "is not in the device mesh"));
      return;
    }
    EXPECT_EQ(mesh.get_local_rank("dp"), rank - 1);
    EXPECT_EQ(mesh.get_group("dp"), last);
    EXPECT_EQ(sum_over(mesh["dp"].get_group(0), 1), 2);
  });
}

TEST(Meshes, WrongOnesAreRefused) {
  in_world(4, [](int rank) {
    const auto refused = [](const std::vector<int>& shape, const std::vector<std::string>& names) {
      return error_of([&] { (void)init_device_mesh("cpu", shape, names); });
    };
    EXPECT_EQ(error_of([] { (void)init_device_mesh("tpu", {4}); }),
              "a device mesh of 'tpu': unknown device; known are cpu and cuda");
    EXPECT_EQ(error_of([] { (void)init_device_mesh("cuda", {4}); }),
              "a device mesh of cuda: the group's backend works on cpu:threads only");
    EXPECT_EQ(refused({3}, {}),
              "a device mesh of shape [3]: it does not have as many places as there are ranks (4)");
    EXPECT_EQ(refused({}, {}), "a device mesh of shape []: it needs at least one dimension");
    EXPECT_EQ(refused({-2, -2}, {}), "a device mesh of shape [-2, -2]: an extent is below 1");
    EXPECT_EQ(refused({1 << 30, 1 << 30, 4}, {}),
              "a device mesh of shape [1073741824, 1073741824, 4]: it does not have as many places as there "
              "are ranks (4)");
    EXPECT_EQ(refused({2, 2}, {"a"}), "a device mesh of shape [2, 2]: it has 1 names");
    EXPECT_EQ(refused({2, 2}, {"a", "a"}), "a device mesh of shape [2, 2]: a name occurs twice");
    const DeviceMesh mesh("cpu", {0, 1}, {2});
    EXPECT_EQ(mesh.get_coordinate().has_value(), rank < 2);
    EXPECT_EQ(error_of([&] { (void)mesh.get_group("x"); }),
              "a device mesh with the dimensions [] has none named 'x'");
    EXPECT_EQ(error_of([&] { (void)mesh.size(1); }), "a device mesh of shape [2] has no dimension 1");
    if (rank > 1) {
      EXPECT_EQ(error_of([&] { (void)mesh.get_group(0); }),
                "rank " + std::to_string(rank) + " is not in the device mesh of the ranks [0, 1]");
    }
  });
}

// All of them, and at once: the deadline is half an hour away.
TEST(Meshes, DifferentArgumentsAreRejected) {
  const auto everybody_hears = [](const std::string& what, const std::function<void(int)>& make) {
    in_world(4, [&](int rank) {
      const std::string error = error_of([&] { make(rank); });
      EXPECT_TRUE(test::contains(error, what)) << error;
      EXPECT_TRUE(error.starts_with("rank " + std::to_string(rank) + ", ")) << error;
      barrier();  // nothing is broken
    });
  };
  const std::vector<std::string> names = {"a", "b"};
  everybody_hears("the ranks call init_device_mesh differently: rank ", [&](int rank) {
    (void)init_device_mesh("cpu", rank == 1 ? std::vector<int>{4, 1} : std::vector<int>{1, 4}, names);
  });
  everybody_hears("rank 2 with the device cpu, the shape [2, 2], the names [b, a] and ", [&](int rank) {
    (void)init_device_mesh("cpu", {2, 2}, rank == 2 ? std::vector<std::string>{"b", "a"} : names);
  });
  everybody_hears("the ranks call DeviceMesh differently: rank ", [&](int rank) {
    (void)DeviceMesh("cpu", rank == 3 ? std::vector<int>{3, 2, 1, 0} : std::vector<int>{0, 1, 2, 3}, {4});
  });
}

TEST(Meshes, InvalidMeshOnOneRankFailsOnAllRanks) {
  in_world(3, [](int rank) {
    const std::string error = error_of([&] { (void)init_device_mesh("cpu", {rank == 1 ? 4 : 3}); });
    EXPECT_TRUE(test::contains(error, "it does not have as many places as there are ranks (3)")) << error;
    EXPECT_EQ(test::contains(error, "rank 1 cannot take part"), rank != 1) << error;
    EXPECT_EQ(init_device_mesh("cpu", {3}).size(), 3);  // all together again
    const auto of_ranks = [](const std::vector<int>& ranks) {
      return error_of([&] { (void)DeviceMesh("cpu", ranks, {static_cast<int>(ranks.size())}); });
    };
    const std::vector<int> all = {0, 1, 2};
    const std::string twice = of_ranks(rank == 0 ? std::vector{0, 0, 1} : all);
    EXPECT_TRUE(test::contains(twice, "a rank occurs twice")) << twice;
    EXPECT_EQ(test::contains(twice, "rank 0 cannot take part"), rank != 0) << twice;
    const std::string fewer = of_ranks(rank == 0 ? std::vector{0, 1} : all);
    EXPECT_TRUE(test::contains(fewer, "rank 0 with the device cpu, the shape [2]")) << fewer;
    EXPECT_EQ(of_ranks(all), "no error");
  });
}

}  // namespace
}  // namespace dlaunch::internal
