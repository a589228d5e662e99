#include "runtime/shared_memory/group_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <list>
#include <string>
#include <vector>

#include "runtime/shared_memory/processors.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::SharedRanks;
using test::soon;

std::chrono::nanoseconds processor_time_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// The processor time of rank 0 while it waits a second for the last rank, after a call of all.
std::chrono::nanoseconds time_of_a_wait(int size) {
  SharedRanks ranks(size);
  std::chrono::nanoseconds used{};
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    memory.begin({.kind = 1}, soon());
    memory.publish();
    memory.meet();
    if (rank + 1 == size) return;
    const auto before = processor_time_of_this_thread();
    memory.begin({.kind = 1}, deadline_after(std::chrono::seconds(1)));
    memory.publish();
    EXPECT_THROW(memory.meet(), DistNetworkError);
    if (rank == 0) used = processor_time_of_this_thread() - before;
  });
  expect_success(errors);
  return used;
}

TEST(GroupMemory, ARankThatWaitsASecondUsesLittleOfAProcessor) {
  EXPECT_LT(time_of_a_wait(2), std::chrono::milliseconds(50));
}

TEST(GroupMemory, ARankThatYieldsUsesLittleOfAProcessor) {
  EXPECT_LT(time_of_a_wait(static_cast<int>(usable_processors()) + 1), std::chrono::milliseconds(50));
}

TEST(GroupMemory, ACallAfterTheEndOfTheGroupFails) {
  SharedRanks ranks(2);
  ranks.memory(0).begin({.kind = 1}, soon());
  ranks.memory(0).publish();
  ranks.lose(1);
  EXPECT_THROW(ranks.memory(0).begin({.kind = 1}, soon()), DistNetworkError);
}

TEST(GroupMemory, ARankMayLeaveWhenItHasPublished) {
  const std::shared_ptr<Segment> segment = test::new_segment(2);
  GroupMemory leaving(segment, {0, 1}, 1, {});
  GroupMemory waiting(segment, {0, 1}, 0, [&](int peer) {
    if (peer == GroupMemory::no_rank) return;
    leaving.begin({.kind = 1}, soon());
    leaving.publish();
    throw DistNetworkError("it has left the group", {.peer = peer});
  });
  waiting.begin({.kind = 1}, soon());
  waiting.publish();
  EXPECT_NO_THROW(waiting.meet());
}

TEST(GroupMemory, MemoryThatARankHasWithdrawnIsNotUsed) {
  SharedRanks ranks(2);
  const std::vector<std::byte> bytes(1000);
  std::atomic<bool> can_read = false;
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    memory.begin({.kind = 1}, soon());
    memory.publish();
    memory.meet();
    can_read = memory.reads_directly();
    if (!can_read) return;
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(bytes.data()));
    std::vector<std::byte> copy(bytes.size());
    if (rank == 1) memory.withdraw();
    memory.begin({.kind = 1}, soon());
    memory.publish();
    memory.meet();
    if (rank == 0) memory.read_directly(1, address, copy.data(), copy.size());
  });
  if (!can_read) GTEST_SKIP() << "the ranks do not read each other's memory here";
  const std::string text = errors[0] ? message_of(errors[0]) : "no error";
  EXPECT_NE(text.find("its memory can no longer be read"), std::string::npos) << text;
}

TEST(GroupMemory, StagingOfManyGroupsIsBounded) {
  constexpr int size = 8;
  constexpr std::size_t long_size = std::size_t{1} << 20U;
  std::list<SharedRanks> groups;
  std::vector<std::vector<float>> values(size, std::vector<float>(long_size / sizeof(float)));
  constexpr CollectiveFingerprint fingerprint{.kind = CollectiveKind::all_reduce};
  constexpr int more_than_fit = 12;
  const auto sum_in = [&](SharedRanks& group) {
    for (auto& own : values) std::ranges::fill(own, 1.5F);
    expect_success(group.run([&](int rank, GroupMemory& memory) {
      Workspace workspace;
      ReductionOrders orders;
      SharedCall call(memory, workspace, orders, fingerprint, soon());
      all_reduce(call, std::as_writable_bytes(std::span(values[static_cast<std::size_t>(rank)])),
                 DType::float32, {});
    }));
    for (const auto& own : values) EXPECT_EQ(own, std::vector<float>(own.size(), 12.0F));
  };
  for (int i = 0; i < more_than_fit; ++i) {
    sum_in(groups.emplace_back(size));
    EXPECT_LE(GroupMemory::staging_in_use(),
              GroupMemory::most_staging + size * 2 * shared::half_staging_size);
  }
  EXPECT_GT(GroupMemory::staging_in_use(), GroupMemory::most_staging / 2);
  sum_in(groups.back());
  sum_in(groups.front());
  groups.clear();
  EXPECT_EQ(GroupMemory::staging_in_use(), 0U);
}

}  // namespace
}  // namespace dlaunch::internal
