#include "runtime/staging/pinned_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "dlaunch/error.h"

namespace dlaunch::internal {
namespace {

int in_use = 0;  // pieces of the source

void* allocate(std::size_t bytes) noexcept {
  ++in_use;
  return std::malloc(bytes);
}
void* allocate_nothing(std::size_t /*bytes*/) noexcept { return nullptr; }
void release(void* memory) noexcept {
  --in_use;
  std::free(memory);
}

class Pinned : public testing::Test {
 protected:
  void SetUp() override { in_use = 0; }
  std::shared_ptr<PinnedMemory> memory_ =
      std::make_shared<PinnedMemory>(PinnedMemory::Source{allocate, release});
};

TEST_F(Pinned, WhatIsReturnedIsUsedAgain) {
  std::shared_ptr<std::byte> first = memory_->take(5000);
  const std::byte* const place = first.get();
  const std::shared_ptr<std::byte> second = memory_->take(5000);
  EXPECT_NE(second.get(), place);
  first.reset();
  EXPECT_EQ(memory_->take(8000).get(), place);
  EXPECT_EQ(in_use, 2);
}

TEST_F(Pinned, AShortCallDoesNotTakeALongPiece) {
  memory_->take(std::size_t{4} << 20U).reset();
  const std::shared_ptr<std::byte> small = memory_->take(1);
  EXPECT_EQ(in_use, 2);
}

TEST_F(Pinned, WhatIsKeptIsBounded) {
  std::vector<std::shared_ptr<std::byte>> pieces;
  constexpr std::size_t piece = std::size_t{1} << 20U;
  for (std::size_t i = 0; i < PinnedMemory::most_kept / piece + 5; ++i)
    pieces.push_back(memory_->take(piece));
  pieces.clear();
  EXPECT_EQ(in_use, static_cast<int>(PinnedMemory::most_kept / piece));
}

TEST_F(Pinned, ItIsFullWhenMuchIsInUse) {
  std::shared_ptr<std::byte> most = memory_->take(PinnedMemory::most_kept - 1);
  EXPECT_TRUE(memory_->is_full());
  most.reset();
  EXPECT_FALSE(memory_->is_full());
  most = memory_->take(PinnedMemory::most_kept / 4);
  EXPECT_FALSE(memory_->is_full());
}

TEST_F(Pinned, ItIsFreedWithItsLastPiece) {
  std::shared_ptr<std::byte> piece = memory_->take(10);
  memory_->take(std::size_t{1} << 20U).reset();
  memory_.reset();
  EXPECT_EQ(in_use, 2);
  piece.reset();
  EXPECT_EQ(in_use, 0);
}

TEST_F(Pinned, NothingNeedsNoMemoryAndNoMemoryIsAnError) {
  EXPECT_EQ(memory_->take(0), nullptr);
  const auto none = std::make_shared<PinnedMemory>(PinnedMemory::Source{allocate_nothing, release});
  try {
    (void)none->take(100);
    FAIL();
  } catch (const DistBackendError& e) {
    EXPECT_NE(std::string(e.what()).find("no pinned memory for 100 bytes"), std::string::npos);
  }
}

TEST_F(Pinned, TheGroupsOfAProcessShareOne) {
  std::shared_ptr<PinnedMemory> one = PinnedMemory::of_process({allocate, release});
  EXPECT_EQ(PinnedMemory::of_process({allocate, release}), one);
  one->take(1).reset();
  EXPECT_EQ(in_use, 1);
  one.reset();
  EXPECT_EQ(in_use, 0);
}

}  // namespace
}  // namespace dlaunch::internal
