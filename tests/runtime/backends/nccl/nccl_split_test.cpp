// New groups whose communicator is split from that of the default group, which named its devices.

#include <dlaunch/debug.h>

#include <csignal>
#include <vector>

#include "tests/runtime/cuda/device_ranks.h"

namespace dlaunch::test {
namespace {

using std::chrono::seconds;

void init_with_device(int rank, std::chrono::milliseconds timeout = seconds(30),
                      const std::string& backend = "nccl") {
  require(cudaSetDevice(device_of(rank)), "cudaSetDevice");
  init_process_group({.backend = backend, .timeout = timeout, .device_id = device_of(rank)});
}

std::string sum_in(const ProcessGroup& group, int rank) {
  const Floats values({static_cast<float>(rank + 1)});
  group.all_reduce(values.tensor());
  return text_of(values.get());
}

// All ranks make both; each is a member of one.
TEST(NcclSplit, GroupsReduceBesideTheOneThatTheyAreSplitFrom) {
  const auto results = run_ranks(4, [](int rank) {
    init_with_device(rank);
    const ProcessGroup even = new_group({0, 2});
    const ProcessGroup odd = new_group({3, 1});
    const ProcessGroup& own = rank % 2 == 0 ? even : odd;
    std::string said = sum_in(own, rank) + " " + sum_in(default_group(), rank);
    const Floats gathered(std::vector<float>(2));
    const Floats mine({static_cast<float>(rank)});
    own.all_gather_into_tensor(gathered.tensor(), mine.tensor());
    said += " (" + text_of(gathered.get()) + ")";
    destroy_process_group(own);
    return said + " " + sum_in(default_group(), rank);
  });
  for (const std::size_t rank : {0U, 2U}) EXPECT_EQ(results[rank].said, "4 10 (0 2) 10");
  for (const std::size_t rank : {1U, 3U}) EXPECT_EQ(results[rank].said, "6 10 (1 3) 10");
}

TEST(NcclSplit, GroupsOfOneRankAndOfAllOfThem) {
  const auto results = run_ranks(3, [](int rank) {
    init_with_device(rank, seconds(30), "cpu:gloo,cuda:nccl");
    const ProcessGroup alone = new_group({1});
    const ProcessGroup all = new_group();
    return (rank == 1 ? sum_in(alone, rank) : "-") + " " + sum_in(all, rank);
  });
  EXPECT_EQ(results[0].said, "- 6");
  EXPECT_EQ(results[1].said, "2 6");
  EXPECT_EQ(results[2].said, "- 6");
}

// NCCL needs all ranks for a split.
TEST(NcclSplit, ARankThatIsNoMemberAndDoesNotComeIsNamed) {
  const auto results = run_ranks(3, [](int rank) {
    init_with_device(rank);
    monitored_barrier();
    std::string said = "did not come";
    if (rank < 2) said = thrown_by([] { new_group({0, 1}, {.timeout = std::chrono::milliseconds(500)}); });
    monitored_barrier();
    return said + ", " + sum_in(default_group(), rank);
  });
  for (const std::size_t rank : {0U, 1U})
    EXPECT_EQ(results[rank].said, "not all ranks came before the deadline; missing: rank 2 of 3, 6");
  EXPECT_EQ(results[2].said, "did not come, 6");
}

TEST(NcclSplit, AWrongArgumentOnOneRankIsReportedToAllAndTheNextCallWorks) {
  const auto results = run_ranks(3, [](int rank) {
    init_with_device(rank);
    const std::string said = thrown_by([&] { new_group({0, rank == 2 ? 7 : 1}); });
    const ProcessGroup next = new_group({0, 1});
    return said + "; " + (rank < 2 ? sum_in(next, rank) : "-");
  });
  const std::string wrong = "new_group: the ranks 0, 7 are not all in range for a world of 3 ranks";
  for (const std::size_t rank : {0U, 1U})
    EXPECT_EQ(results[rank].said, "rank 2 cannot take part: " + wrong + "; 3");
  EXPECT_EQ(results[2].said, wrong + "; -");
}

// The members and the third rank are inside NCCL, and wait for it.
TEST(NcclSplit, ARankThatIsKilledEndsTheCallOfAllOthers) {
  SKIP_ON_GPUS("a plan of faults is the double's");
  const auto results = run_processes(4, [](int rank) {
    if (rank == 3) setenv("NCCL_DOUBLE_FAULTS", "3:1:crash", 1);
    init_with_device(rank);
    try {
      new_group({0, 1, 3});
      return std::string("made");
    } catch (const DistNetworkError& e) {
      const std::string later = thrown_by([] { default_group().barrier(); });
      return "rank " + std::to_string(e.context().peer) + (later.empty() ? "" : ", and the group is broken");
    }
  });
  EXPECT_TRUE(WIFSIGNALED(results[3].status));
  for (const std::size_t rank : {0U, 1U, 2U})
    EXPECT_EQ(results[rank].said, "rank 3, and the group is broken");
}

// Only the members call it: they connect by themselves.
TEST(NcclSplit, LocalSynchronizationNeedsTheMembersOnly) {
  const auto results = run_ranks(3, [](int rank) {
    init_with_device(rank);
    monitored_barrier();
    if (rank == 0) return std::string("not asked");
    return sum_in(new_group({1, 2}, {.use_local_synchronization = true}), rank);
  });
  EXPECT_EQ(results[0].said, "not asked");
  EXPECT_EQ(results[1].said, "5");
  EXPECT_EQ(results[2].said, "5");
}

}  // namespace
}  // namespace dlaunch::test
