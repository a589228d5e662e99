// Parts of torch.distributed's documented interface: batches over several groups, device
// meshes as scopes and without groups, barrier's devices.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/device_mesh.h"
#include "dlaunch/distributed.h"
#include "dlaunch/threads.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_contains;
using test::error_of;

// Peers are ranks in the default group, whatever group an operation has.
TEST(Batch, OperationsMayHaveGroupsOfTheirOwn) {
  run_ranks_as_threads(3, [](int rank) {
    init_process_group();
    const ProcessGroup all = new_group({}, {.name = "all"});
    const ProcessGroup pair = new_group({1, 2}, {.name = "pair"});
    std::vector<int> sent = {rank};
    std::vector<int> by_default(1, -1);
    std::vector<int> by_all(1, -1);
    std::vector<int> by_pair(1, -1);
    using Kind = P2POp::Kind;
    std::vector<P2POp> ops;
    const int right = (rank + 1) % 3;
    const int left = (rank + 2) % 3;
    // One tag, the same peers: what keeps the messages apart is the group.
    ops.push_back({Kind::isend, Tensor::of(sent), right});
    ops.push_back({Kind::irecv, Tensor::of(by_default), left});
    ops.push_back({Kind::isend, Tensor::of(sent), left, 0, all});
    ops.push_back({Kind::irecv, Tensor::of(by_all), right, 0, all});
    if (rank > 0) {
      ops.push_back({Kind::isend, Tensor::of(sent), 3 - rank, 0, pair});
      ops.push_back({Kind::irecv, Tensor::of(by_pair), 3 - rank, 0, pair});
    }
    for (const Work& work : batch_isend_irecv(ops)) work.wait();
    EXPECT_EQ(by_default[0], left);
    EXPECT_EQ(by_all[0], right);
    EXPECT_EQ(by_pair[0], rank == 0 ? -1 : 3 - rank);
    // Of a group: its operations' peers are ranks there, unless they have a group of their own.
    if (rank > 0) {
      const std::vector<P2POp> mixed = {{Kind::isend, Tensor::of(sent), 2 - rank},
                                        {Kind::irecv, Tensor::of(by_pair), 2 - rank},
                                        {Kind::isend, Tensor::of(sent), 3 - rank, 7, all},
                                        {Kind::irecv, Tensor::of(by_all), 3 - rank, 7, all}};
      for (const Work& work : pair.batch_isend_irecv(mixed)) work.wait();
      EXPECT_EQ(by_pair[0], 3 - rank);
      EXPECT_EQ(by_all[0], 3 - rank);
    }
    barrier();
    destroy_process_group();
  });
}

TEST(Batch, NothingIsStartedWhereAnOperationOfAnotherGroupIsWrong) {
  run_ranks_as_threads(2, [](int rank) {
    init_process_group();
    const ProcessGroup both = new_group({}, {.name = "both"});
    std::vector<int> value = {rank};
    if (rank == 0) {
      const std::vector<P2POp> ops = {{P2POp::Kind::isend, Tensor::of(value), 1},
                                      {P2POp::Kind::isend, Tensor::of(value), 5, 0, both}};
      EXPECT_TRUE(error_contains([&] { batch_isend_irecv(ops); }, "rank 5 is not a member of group both"));
      value[0] = 9;
      send(Tensor::of(value), 1);
    } else {
      EXPECT_EQ(recv(Tensor::of(value)), 0);
      EXPECT_EQ(value[0], 9);  // the first message
    }
    destroy_process_group();
  });
}

TEST(Barrier, DevicesNeedABackendThatWorksOnThem) {
  run_ranks_as_threads(2, [](int) {
    init_process_group();
    CollectiveOptions options;
    options.device_ids = {0};
    EXPECT_TRUE(error_contains([&] { barrier(options); }, "backend threads does not work on device cuda:0"));
    options.device_ids = {-1};
    EXPECT_TRUE(error_contains([&] { barrier(options); }, "device -1 does not exist"));
    options.device_ids = {};
    barrier(options);  // the group is as it was
    destroy_process_group();
  });
}

TEST(ReduceOp, HasItsOlderName) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_EQ(reduce_op::product, ReduceOp::product);
#pragma GCC diagnostic pop
}

TEST(DeviceMesh, IsAScope) {
  run_ranks_as_threads(2, [](int) {
    init_process_group();
    const char* const none = "no device mesh is current in this thread";
    EXPECT_TRUE(error_contains([] { (void)get_current_mesh(); }, none));
    const DeviceMesh outer = init_device_mesh("cpu", {2}, {"dp"});
    const DeviceMesh inner = init_device_mesh("cpu", {1, 2});
    {
      const MeshScope with_outer(outer);
      EXPECT_EQ(get_current_mesh().names(), outer.names());
      {
        const MeshScope with_inner(inner);
        EXPECT_EQ(get_current_mesh().shape(), inner.shape());
        std::string elsewhere;
        std::thread([&] { elsewhere = error_of([] { (void)get_current_mesh(); }); }).join();
        EXPECT_NE(elsewhere.find(none), std::string::npos) << elsewhere;
      }
      EXPECT_EQ(get_current_mesh().get_group("dp"), outer.get_group("dp"));
    }
    EXPECT_TRUE(error_contains([] { (void)get_current_mesh(); }, none));
    destroy_process_group();
  });
}

TEST(DeviceMesh, CanBeWithoutGroups) {
  run_ranks_as_threads(4, [](int rank) {
    init_process_group();
    const int groups = get_pg_count();
    if (rank != 3) {  // no rank waits
      const DeviceMesh mesh("cpu", {0, 1, 2, 3}, {2, 2}, {"dp", "tp"}, {.init_process_groups = false});
      EXPECT_EQ(get_pg_count(), groups);
      EXPECT_EQ(mesh.get_coordinate(), (std::vector<int>{rank / 2, rank % 2}));
      EXPECT_EQ(mesh.get_local_rank("tp"), rank % 2);
      EXPECT_EQ(mesh["tp"].ranks(), (std::vector<int>{rank / 2 * 2, rank / 2 * 2 + 1}));
      EXPECT_EQ(mesh.flatten().size(), 4);
      const char* const why = "was made without process groups";
      EXPECT_TRUE(error_contains([&] { (void)mesh.get_group("tp"); }, why));
      EXPECT_TRUE(error_contains([&] { (void)mesh["tp"].get_group(0); }, why));
      EXPECT_TRUE(error_contains([&] { (void)mesh.get_all_groups(); }, why));
      EXPECT_TRUE(error_contains(
          [] {
            DeviceMesh("cpu", {0, 1}, {3}, {}, {.init_process_groups = false});
          },
          "as many places"));
    }
    barrier();
    EXPECT_EQ(get_pg_count(), groups);
    destroy_process_group();
  });
}

}  // namespace
}  // namespace dlaunch::internal
