// Values in the heap of a rank that gives up a call: no other rank changes them afterwards.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/runtime/collectives/any_call.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::internal {
namespace {

using namespace test;

constexpr std::size_t value_count = 50'000;
const Call in_heap{.kind = CollectiveKind::all_reduce, .count = value_count};

// In the heap.
std::shared_ptr<float> new_values(const GroupMemory& memory) {
  std::string why;
  const std::shared_ptr<std::byte> piece = memory.allocate(value_count * sizeof(float), why);
  if (!piece) throw std::runtime_error(why);
  auto* const values = reinterpret_cast<float*>(piece.get());
  std::fill_n(values, value_count, 1.0F);
  return {piece, values};
}

std::span<std::byte> bytes_of(const std::shared_ptr<float>& values) {
  return std::as_writable_bytes(std::span(values.get(), value_count));
}

void all_reduce(GroupMemory& memory, const std::shared_ptr<float>& values) {
  Workspace workspace;
  ReductionOrders orders;
  const CollectiveFingerprint fingerprint = fingerprint_of(in_heap);
  SharedCall(memory, workspace, orders, fingerprint, soon()).all_reduce(bytes_of(values), DType::float32, {});
}

// What all_reduce() does until it has met the peer, who is in that call.
void meet(GroupMemory& memory, const Segment& segment, std::size_t peer,
          const std::shared_ptr<float>& values) {
  const shared::Cell& theirs = segment.control(peer).cells[1];
  while (theirs.stamp.load(std::memory_order_acquire) != 1) std::this_thread::yield();
  const auto heap = SharedHeap::containing(bytes_of(values));
  const std::uint64_t words[] = {heap->identity(), heap->offset_of(bytes_of(values).data())};
  memory.begin(theirs.fingerprint, soon());
  std::memcpy(memory.compose(sizeof words), words, sizeof words);
  memory.publish();
  memory.meet();
}

void await_filled_by(const Segment& segment, std::size_t rank) {
  const std::atomic<std::uint64_t>& filled = segment.control(rank).filled.value;
  while (filled.load(std::memory_order_acquire) == 0) std::this_thread::yield();
}

void expect_all(const std::shared_ptr<float>& values, float wanted) {
  EXPECT_EQ(std::count(values.get(), values.get() + value_count, wanted), value_count);
}

// The same heap as another process has it: at another address.
std::shared_ptr<SharedHeap> other_mapping(const SharedHeap& heap, std::size_t ranks) {
  void* const first_page = mremap(heap.at(0, shared::page_size), 0, shared::page_size, MREMAP_MAYMOVE);
  if (first_page == MAP_FAILED) throw std::runtime_error("no other mapping");
  std::string why;
  auto other = SharedHeap::map(static_cast<std::byte*>(first_page), heap.identity() + 1, ranks,
                               shared::heap_part_within(ranks, ~std::size_t{0}), why);
  munmap(first_page, shared::page_size);
  if (!other) throw std::runtime_error(why);
  return other;
}

TEST(GivenUpValues, ARankThatComesLaterDoesNotWriteThem) {
  SharedRanks ranks(2);
  const std::shared_ptr<float> values = new_values(ranks.memory(0));
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    if (rank == 1) return all_reduce(memory, new_values(memory));
    meet(memory, *ranks.segment(), 1, values);
    memory.withdraw();
    std::fill_n(values.get(), value_count, 3.0F);
    memory.set_filled(shared::last_round - 1);  // now rank 1 goes on
  });
  const auto texts = messages(errors);
  EXPECT_EQ(texts[0], "");
  EXPECT_NE(texts[1].find("its memory can no longer be read"), std::string::npos) << texts[1];
  expect_all(values, 3.0F);
}

// Rank 1 is stopped when it is at the values of rank 0, and goes on after rank 0 has given up.
TEST(GivenUpValues, ARankThatWasStoppedThereDoesNotReachThem) {
  SharedRanks ranks(2);
  const std::shared_ptr<float> values = new_values(ranks.memory(0));
  std::fill_n(values.get(), value_count, 2.0F);
  const auto heap = SharedHeap::containing(bytes_of(values));
  const auto other = other_mapping(*heap, 2);
  std::byte* const there = other->at(heap->offset_of(bytes_of(values).data()), bytes_of(values).size());
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    if (rank == 0) return all_reduce(memory, values);
    meet(memory, *ranks.segment(), 0, new_values(memory));
    memory.begin_at_values();
    await_filled_by(*ranks.segment(), 0);
    ranks.lose(1);
  });
  EXPECT_NE(messages(errors)[0].find("it died"), std::string::npos);
  std::fill_n(reinterpret_cast<float*>(there), value_count, 5.0F);
  expect_all(values, 2.0F);
  EXPECT_EQ(SharedHeap::containing(bytes_of(values)), nullptr);
}

// As before, but rank 1 goes on at once.
TEST(GivenUpValues, StaySharedIfNoRankIsAtThem) {
  SharedRanks ranks(2);
  const std::shared_ptr<float> values = new_values(ranks.memory(0));
  const auto errors = ranks.run([&](int rank, GroupMemory& memory) {
    if (rank == 0) return all_reduce(memory, values);
    meet(memory, *ranks.segment(), 0, new_values(memory));
    memory.begin_at_values();
    await_filled_by(*ranks.segment(), 0);
    memory.end_at_values();
    ranks.lose(1);
  });
  EXPECT_NE(messages(errors)[0].find("it died"), std::string::npos);
  EXPECT_NE(SharedHeap::containing(bytes_of(values)), nullptr);
}

}  // namespace
}  // namespace dlaunch::internal
