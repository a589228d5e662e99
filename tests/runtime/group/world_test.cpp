// Groups, meshes and their numbers: the public API over ranks that are threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/device_mesh.h"
#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "runtime/group/world.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::error_of;

// A world of threads whose default group exists.
void in_world(int size, const std::function<void(int)>& body) {
  run_ranks_as_threads(size, [&](int rank) {
    init_process_group();
    body(rank);
    destroy_process_group();
  });
}

int sum_over(const ProcessGroup& group, int value) {
  std::vector<int> values = {value};
  group.all_reduce(Tensor::of(values));
  return values[0];
}

class Worlds : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Worlds, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Worlds, KnowThemselves) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    EXPECT_TRUE(is_initialized());
    EXPECT_EQ(get_rank(), rank);
    EXPECT_EQ(get_world_size(), size);
    EXPECT_EQ(get_backend(), "threads");
    EXPECT_EQ(get_pg_count(), 1);
    EXPECT_EQ(static_cast<int>(get_process_group_ranks().size()), size);
    EXPECT_EQ(sum_over(default_group(), rank), size * (size - 1) / 2);
  });
  EXPECT_FALSE(is_initialized());  // of the process: another one
}

TEST_P(Worlds, EvenAndOddRanksHaveGroups) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    std::vector<int> even;
    std::vector<int> odd;
    for (int i = 0; i < size; ++i) (i % 2 == 0 ? even : odd).push_back(i);
    std::ranges::reverse(even);  // the order does not matter
    const ProcessGroup evens = new_group(even);
    const ProcessGroup odds = odd.empty() ? ProcessGroup() : new_group(odd);
    const ProcessGroup& own = rank % 2 == 0 ? evens : odds;
    EXPECT_EQ(get_rank(own), rank / 2);
    EXPECT_EQ(get_world_size(own), (size + 1 - rank % 2) / 2);
    EXPECT_EQ(get_global_rank(own, own.rank()), rank);
    EXPECT_EQ(get_group_rank(own, rank), rank / 2);
    int wanted = 0;
    for (int i = rank % 2; i < size; i += 2) wanted += i;
    EXPECT_EQ(sum_over(own, rank), wanted);
    // Ranks of the default group name roots and peers in the free functions.
    std::vector<int> value = {rank};
    broadcast(Tensor::of(value), get_global_rank(own, own.size() - 1), {{}, own});
    EXPECT_EQ(value[0], get_global_rank(own, own.size() - 1));
    if (size > 1) {
      const ProcessGroup& other = rank % 2 == 0 ? odds : evens;
      EXPECT_EQ(get_rank(other), -1);
      EXPECT_EQ(get_world_size(other), -1);
      EXPECT_EQ(other.size(), rank % 2 == 0 ? size / 2 : (size + 1) / 2);
      other.barrier();
      other.isend(Tensor::of(value), 0).wait();
      other.batch_isend_irecv({});
      other.all_gather_into_tensor_coalesced({}, {});
      other.reduce_scatter_tensor_coalesced({}, {});
      EXPECT_TRUE(Coalescing(other).end().is_success());
      EXPECT_TRUE(
          error_contains([&] { other.set_timeout(std::chrono::seconds(1)); }, "not a member of the group"));
      EXPECT_TRUE(error_contains([&] { (void)get_group_rank(other, rank); }, "is not a member of group"));
      EXPECT_TRUE(error_contains(
          [&] {
            broadcast(Tensor::of(value), (rank + 1) % 2, {{}, own});
          },
          "is not a member of group"));
    }
  });
}

TEST_P(Worlds, MembersMayMeetWithoutTheOthers) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    NewGroupOptions options;
    options.use_local_synchronization = true;
    const std::vector<int> first_two = {0, std::min(1, size - 1)};
    std::vector<int> members(first_two.begin(), first_two.begin() + std::min(2, size));
    // The other ranks make no group at all; the members make two, which must not meet each other.
    if (rank > 1) return;
    const ProcessGroup one = new_group(members, options);
    const ProcessGroup two = new_group(members, options);
    EXPECT_EQ(sum_over(one, 1), static_cast<int>(members.size()));
    EXPECT_EQ(sum_over(two, 10), 10 * static_cast<int>(members.size()));
    EXPECT_FALSE(one == two);
    destroy_process_group(one);
    EXPECT_EQ(sum_over(two, 1), static_cast<int>(members.size()));
    EXPECT_EQ(get_pg_count(), 2);
  });
}

TEST_P(Worlds, SubgroupsDivideTheWorld) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    for (int part = 1; part <= size; ++part) {
      if (size % part != 0) {
        EXPECT_TRUE(error_contains([&] { new_subgroups(part); }, "cannot be divided into groups of"));
        continue;
      }
      const ProcessGroup own = new_subgroups(part);
      EXPECT_EQ(own.rank(), rank % part);
      EXPECT_EQ(sum_over(own, 1), part);
    }
  });
}

// Even and odd ranks, named backwards; rank 0 of a larger world stays out.
TEST_P(Worlds, AGroupCanBeSplit) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    std::vector<std::vector<int>> parts(2);
    for (int member = size - 1; member >= (size > 2 ? 1 : 0); --member) {
      parts[static_cast<std::size_t>(member % 2)].push_back(member);
    }
    const ProcessGroup own = split_group({}, parts);
    if (size > 2 && rank == 0) {
      EXPECT_FALSE(own);
      return;
    }
    const std::vector<int>& members = parts[static_cast<std::size_t>(rank % 2)];
    EXPECT_EQ(own.size(), static_cast<int>(members.size()));
    EXPECT_EQ(get_global_rank(own, own.rank()), rank);
    EXPECT_EQ(sum_over(own, 1), own.size());
    // And once more: its first rank by itself. The numbers are those in the group that is split.
    const std::vector<std::vector<int>> first = {{0}};
    const ProcessGroup alone = split_group(own, first);
    EXPECT_EQ(static_cast<bool>(alone), own.rank() == 0);
    if (alone) {
      EXPECT_EQ(alone.ranks(), std::vector<int>{rank});
    }
    const std::vector<std::vector<int>> twice = {{0}, {0}};
    EXPECT_TRUE(error_contains([&] { split_group(own, twice); }, "split_group: rank 0 is in two groups"));
    const std::vector<std::vector<int>> unknown = {{99}};
    EXPECT_TRUE(error_contains([&] { split_group(own, unknown); }, "rank 99 is out of range for a group of"));
  });
}

TEST(Groups, AWrongRankIsRefusedInTheNameOfTheOperation) {
  in_world(2, [](int rank) {
    std::vector<int> value(1);
    const Tensor tensor = Tensor::of(value);
    const auto refused = [&](const std::string& operation, const auto& call) {
      EXPECT_EQ(error_of(call), "rank " + std::to_string(rank) + ", " + operation +
                                    " of group default: rank 99 is not a member of group default");
    };
    refused("broadcast", [&] { broadcast(tensor, 99); });
    refused("reduce", [&] { reduce(tensor, 99); });
    refused("gather", [&] { gather({}, tensor, 99); });
    refused("scatter", [&] { scatter(tensor, {}, 99); });
    refused("send", [&] { send(tensor, 99); });
    refused("send", [&] { isend(tensor, 99); });
    refused("recv", [&] { recv(tensor, 99); });
    refused("recv", [&] { irecv(tensor, 99); });
    refused("breakpoint", [] { breakpoint(99); });
    const std::vector<P2POp> batch = {{P2POp::Kind::isend, tensor, 99}};
    refused("batch_isend_irecv", [&] { batch_isend_irecv(batch); });
  });
}

TEST(Groups, HaveATimeoutThatCanBeChanged) {
  in_world(2, [](int) {
    NewGroupOptions options;
    options.timeout = std::chrono::seconds(7);
    const ProcessGroup group = new_group({}, options);
    EXPECT_EQ(group.timeout(), std::chrono::seconds(7));
    EXPECT_EQ(default_group().timeout(), std::chrono::minutes(30));
    EXPECT_TRUE(error_contains([&] { group.set_timeout(std::chrono::milliseconds(0)); },
                               "set_timeout of group 1: the timeout must be longer than 0 ms"));
    group.set_timeout(std::chrono::milliseconds(20));
    EXPECT_EQ(group.timeout(), std::chrono::milliseconds(20));
    std::vector<int> value(1);
    EXPECT_TRUE(
        error_contains([&] { group.recv(Tensor::of(value), 1 - group.rank()); }, "before the deadline"));
    default_group().set_timeout(std::chrono::minutes(2));
    barrier();
    EXPECT_EQ(new_group().timeout(), std::chrono::minutes(2));
  });
}

TEST(Groups, CanBeAbortedOneOrAll) {
  std::latch made(3);
  std::latch used(3);
  in_world(3, [&](int rank) {
    const ProcessGroup one = new_group();
    const ProcessGroup other = new_group();
    made.arrive_and_wait();
    if (rank == 0) abort_process_group("enough of it", one);
    EXPECT_TRUE(error_contains([&] { one.barrier(); }, "enough of it"));
    EXPECT_EQ(sum_over(other, 1), 3);
    used.arrive_and_wait();
    if (rank == 2) abort_process_group("enough of all");
    EXPECT_TRUE(error_contains([&] { other.barrier(); }, "enough of all"));
    EXPECT_TRUE(error_contains([] { barrier(); }, "enough of all"));
  });
  EXPECT_TRUE(error_contains([] { abort_process_group("nothing"); }, "has not been initialized"));
}

TEST(Groups, KnowTheirBackends) {
  in_world(2, [](int) {
    EXPECT_EQ(get_backend(), "threads");
    EXPECT_EQ(get_backend_config(), "cpu:threads");
    NewGroupOptions options;
    for (const char* const backend : {"THREADS", "CPU:Threads"}) {
      options.backend = backend;
      EXPECT_EQ(get_backend(new_group({}, options)), backend[0] == 'T' ? "threads" : "cpu:threads");
    }
    const auto refused = [&](const char* backend, const char* reason) {
      options.backend = backend;
      EXPECT_TRUE(error_contains([&] { new_group({}, options); }, reason)) << backend;
    };
    for (const char* const backend : {"threads,threads", "cpu:threads,cpu:threads", "cpu:threads,Threads"}) {
      refused(backend, "names two backends for the device cpu");
    }
    for (const char* const backend : {":threads", "cpu:", ",threads"})
      refused(backend, "cannot read backend");
  });
  EXPECT_EQ(get_default_backend_for_device("cpu"), "gloo");
  EXPECT_EQ(get_default_backend_for_device("cuda:1"), "nccl");
  EXPECT_TRUE(error_contains([] { get_default_backend_for_device("tpu"); }, "known are cpu and cuda"));
}

TEST_P(Worlds, AMeshHasAGroupForEachLine) {
  const int size = GetParam();
  in_world(size, [&](int rank) {
    const int rows = size % 2 == 0 ? 2 : 1;
    const int columns = size / rows;
    const DeviceMesh mesh = init_device_mesh("cpu", {rows, columns}, {"dp", "tp"});
    EXPECT_EQ(mesh.ndim(), 2);
    EXPECT_EQ(mesh.size(), size);
    EXPECT_EQ(mesh.size(1), columns);
    EXPECT_EQ(mesh.get_coordinate(), (std::vector<int>{rank / columns, rank % columns}));
    EXPECT_EQ(mesh.get_local_rank("dp"), rank / columns);
    EXPECT_EQ(mesh.get_group("tp").size(), columns);
    int row_sum = 0;
    for (int i = 0; i < columns; ++i) row_sum += rank / columns * columns + i;
    EXPECT_EQ(sum_over(mesh.get_group("tp"), rank), row_sum);
    int column_sum = 0;
    for (int i = 0; i < rows; ++i) column_sum += rank % columns + i * columns;
    EXPECT_EQ(sum_over(mesh.get_group(0), rank), column_sum);
    EXPECT_EQ(mesh.get_all_groups().size(), 2U);

    const DeviceMesh line = mesh["dp"];
    EXPECT_EQ(line.shape(), std::vector<int>{rows});
    EXPECT_EQ(line.ranks(), get_process_group_ranks(mesh.get_group("dp")));
    EXPECT_EQ(line.get_group(0), mesh.get_group("dp"));
    const std::vector<std::string> turned = {"tp", "dp"};
    const DeviceMesh transposed = mesh.slice(turned);
    EXPECT_EQ(transposed.shape(), (std::vector<int>{columns, rows}));
    EXPECT_EQ(transposed.get_coordinate(), (std::vector<int>{rank % columns, rank / columns}));
    EXPECT_EQ(transposed.ranks()[static_cast<std::size_t>(size - 1)], size - 1);

    const DeviceMesh flat = mesh.flatten();
    EXPECT_EQ(flat.names(), std::vector<std::string>{"dp_tp"});
    EXPECT_EQ(sum_over(flat.get_group("dp_tp"), 1), size);
  });
}

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

TEST(ThreadWorlds, CanBeMadeAgain) {
  run_ranks_as_threads(3, [](int rank) {
    for (int i = 0; i < 3; ++i) {
      init_process_group();
      EXPECT_EQ(sum_over(new_group(), rank), 3);
      EXPECT_EQ(error_of([] { init_process_group(); }), "the default process group is already initialized");
      destroy_process_group();
    }
  });
}

TEST(ThreadWorlds, BackendUnusableOnOneRankFailsOnAllRanks) {
  run_ranks_as_threads(3, [](int rank) {
    InitOptions options;
    if (rank == 0) options.backend = "odd";
    const std::string error = error_of([&] { init_process_group(options); });
    EXPECT_TRUE(test::contains(error, "unknown backend 'odd'")) << error;
    EXPECT_EQ(test::contains(error, "rank 0 cannot take part: "), rank != 0) << error;
    init_process_group();  // all together again
    EXPECT_EQ(sum_over(default_group(), 1), 3);
    destroy_process_group();
  });
}

TEST(ThreadWorlds, NeedAFunction) {
  EXPECT_EQ(error_of([] { run_ranks_as_threads(2, nullptr); }),
            "run_ranks_as_threads: there is no function to run");
}

TEST(ThreadWorlds, TheFirstErrorComesOut) {
  EXPECT_EQ(error_of([] {
              run_ranks_as_threads(3, [](int rank) {
                init_process_group();
                if (rank == 1) throw DistError("rank 1 has had enough");
                barrier();
              });
            }),
            "rank 1 has had enough");
}

// Half an hour before the deadline.
TEST(ThreadWorlds, ARankThatFailsBeforeItJoinsIsNotWaitedFor) {
  std::atomic<int> told = 0;
  EXPECT_EQ(error_of([&] {
              run_ranks_as_threads(3, [&](int rank) {
                if (rank == 1) throw DistError("rank 1 has no data");
                const std::string error = error_of([] { init_process_group(); });
                if (test::contains(error, "another rank gave up: rank 1 has no data")) ++told;
              });
            }),
            "rank 1 has no data");
  EXPECT_EQ(told, 2);
}

TEST(ThreadWorlds, MeetThroughAStoreOfTheProgram) {
  const auto store = make_hash_store();
  const auto errors = test::on_threads(3, [&](int rank) {
    const ThreadWorld mine({rank, 3, nullptr, "threads"});
    InitOptions options;
    options.backend = "threads";
    options.rank = rank;
    options.world_size = 3;
    options.store = make_prefix_store("part", store);
    init_process_group(options);
    EXPECT_EQ(sum_over(default_group(), rank), 3);
    destroy_process_group();
  });
  test::expect_success(errors);
}

// One that a program wrote itself.
class CountingStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override { count().set(key, value); }
  std::string get(const std::string& key) override { return count().get(key); }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return count().add(key, amount); }
  std::string compare_set(const std::string& key, const std::string& expected,
                          const std::string& desired) override {
    return count().compare_set(key, expected, desired);
  }
  bool wait_for(std::span<const std::string> keys, std::chrono::milliseconds timeout) override {
    return count().wait_for(keys, timeout);
  }
  bool delete_key(const std::string& key) override { return count().delete_key(key); }

  std::atomic<int> calls = 0;

 private:
  KeyValueStore& count() {
    ++calls;
    return *inner_;
  }
  const std::shared_ptr<KeyValueStore> inner_ = make_hash_store();
};

TEST(ThreadWorlds, MeetThroughAStoreThatAProgramWrote) {
  const auto store = std::make_shared<CountingStore>();
  const auto errors = test::on_threads(2, [&](int rank) {
    const ThreadWorld mine({rank, 2, nullptr, "threads"});
    InitOptions options;
    options.rank = rank;
    options.world_size = 2;
    options.store = store;
    init_process_group(options);
    EXPECT_EQ(sum_over(new_group(), 1), 2);
    destroy_process_group();
  });
  test::expect_success(errors);
  EXPECT_GT(store->calls, 4);
}

TEST(Stores, FollowTheirHeader) {
  const auto store = make_prefix_store("a", make_hash_store());
  const std::vector<std::string> keys = {"key"};
  EXPECT_FALSE(store->wait_for(keys, std::chrono::milliseconds(0)));
  EXPECT_FALSE(store->wait_for(keys, std::chrono::milliseconds(5)));
  EXPECT_EQ(store->compare_set("key", "", "1"), "1");
  EXPECT_EQ(store->compare_set("key", "2", "3"), "1");
  EXPECT_TRUE(store->wait_for(keys, std::chrono::milliseconds(0)));
  EXPECT_EQ(store->add("key", 4), 5);
  store->set("key", "x");
  EXPECT_EQ(store->get("key"), "x");
  EXPECT_THROW(store->add("key", 1), DistStoreError);
  EXPECT_TRUE(store->delete_key("key"));
  EXPECT_FALSE(store->delete_key("key"));
}

}  // namespace
}  // namespace dlaunch::internal
