// Memory for long data: what is given back is used again, and not all of it is kept.

#include "runtime/base/block_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

namespace dlaunch::internal {
namespace {

constexpr std::size_t mib = std::size_t{1024} * 1024;

TEST(BlockMemory, IsAlignedAndMayBeWritten) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, 64 * 1024 - std::size_t{1}, std::size_t{64} * 1024, 3 * mib + 1}) {
    const std::shared_ptr<std::byte> block = allocate_block(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.get()) % 64, 0U) << size;
    if (size > 0) std::memset(block.get(), 1, size);
  }
}

TEST(BlockMemory, IsUsedAgain) {
  const std::byte* const first = allocate_block(10 * mib).get();
  const std::shared_ptr<std::byte> again = allocate_block(9 * mib);
  EXPECT_EQ(again.get(), first);
  EXPECT_NE(allocate_block(9 * mib).get(), first);
}

TEST(BlockMemory, IsNotUsedForMuchLess) {
  const std::byte* const large = allocate_block(20 * mib).get();
  EXPECT_NE(allocate_block(mib).get(), large);
}

TEST(BlockMemory, IsKeptUpToALimit) {
  {
    std::vector<std::shared_ptr<std::byte>> all;
    for (int i = 0; i < 10; ++i) all.push_back(allocate_block(most_kept_memory / 4));
    const std::shared_ptr<std::byte> larger = allocate_block(most_kept_memory + mib);
  }
  EXPECT_LE(kept_memory(), most_kept_memory);
  EXPECT_GE(kept_memory(), most_kept_memory / 4);
}

TEST(BlockMemory, ThatDoesNotExistIsAnError) { EXPECT_THROW(allocate_block(SIZE_MAX / 2), std::bad_alloc); }

}  // namespace
}  // namespace dlaunch::internal
