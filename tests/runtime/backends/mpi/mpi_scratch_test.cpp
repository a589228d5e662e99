#include "runtime/backends/mpi/mpi_scratch.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <set>

namespace dlaunch::internal {
namespace {

constexpr std::size_t kib = 1024;

// Blocks of so many bytes each, which have been given back at once.
std::set<std::byte*> used_together(std::size_t blocks, std::size_t bytes) {
  std::list<MpiScratch> held;
  std::set<std::byte*> places;
  for (std::size_t i = 0; i < blocks; ++i) places.insert(held.emplace_back(bytes).bytes().data());
  EXPECT_EQ(places.size(), blocks);
  return places;
}

// As long as it exists, the allocator has nothing of that size that was given back to it.
class EmptyAllocator {
 public:
  explicit EmptyAllocator(std::size_t bytes) {
    for (int i = 0; i < 8; ++i) blocks_.emplace_back(static_cast<std::byte*>(operator new(bytes, page)));
  }

 private:
  static constexpr std::align_val_t page{4096};
  struct Delete {
    void operator()(std::byte* memory) const { operator delete(memory, page); }
  };
  std::list<std::unique_ptr<std::byte, Delete>> blocks_;
};

TEST(MpiScratch, IsThatOfAnEarlierOperationIfThatIsLargeEnough) {
  const std::set<std::byte*> first = used_together(1, 100 * kib);
  const EmptyAllocator none(128 * kib);
  const MpiScratch second(80 * kib);
  EXPECT_EQ(second.bytes().size(), 80 * kib);
  EXPECT_TRUE(first.contains(second.bytes().data()));
  const MpiScratch beside(80 * kib);
  EXPECT_FALSE(first.contains(beside.bytes().data()));
}

TEST(MpiScratch, BeginsAPage) {
  for (const std::size_t bytes : {std::size_t{1}, 5 * kib, 3000 * kib}) {
    const MpiScratch block(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.bytes().data()) % 4096, 0U);
  }
}

TEST(MpiScratch, TheLargestAreKept) {
  const std::set<std::byte*> large = used_together(4, 1000 * kib);
  (void)used_together(6, 200 * kib);
  const EmptyAllocator none(1024 * kib);
  EXPECT_EQ(used_together(4, 1000 * kib), large);
}

TEST(MpiScratch, WhatIsLeftToMpiIsNotUsedAgain) {
  static std::byte* left = nullptr;  // so that it is not taken for a leak
  {
    MpiScratch block(2000 * kib);
    left = block.bytes().data();
    block.leave();
  }
  EXPECT_FALSE(used_together(6, 2000 * kib).contains(left));
}

}  // namespace
}  // namespace dlaunch::internal
