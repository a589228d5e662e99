// Groups and their numbers: the public API over ranks that are threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>
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

}  // namespace
}  // namespace dlaunch::internal
