#include "runtime/shared_memory/shared_heap.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/shared_memory/layout.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {
namespace {

constexpr std::size_t page = shared::page_size;

class SharedHeapTest : public testing::Test {
 protected:
  void SetUp() override {
    const int fd = Segment::make_file(2, why_);
    ASSERT_GE(fd, 0) << why_;
    segment_ = Segment::map(fd, 2, why_);
    close(fd);
    ASSERT_TRUE(segment_) << why_;
    heap_ = segment_->heap(why_);
    ASSERT_TRUE(heap_) << why_;
  }

  // Pages of the heap that have memory.
  static std::size_t resident(const std::byte* at, std::size_t size) {
    std::vector<unsigned char> pages(size / page);
    EXPECT_EQ(mincore(const_cast<std::byte*>(at), size, pages.data()), 0);
    return static_cast<std::size_t>(std::ranges::count_if(pages, [](auto each) { return (each & 1U) != 0; }));
  }

  std::string why_;
  std::shared_ptr<Segment> segment_;
  std::shared_ptr<SharedHeap> heap_;
};

TEST_F(SharedHeapTest, IsOneObjectOfASegment) { EXPECT_EQ(segment_->heap(why_), heap_); }

TEST_F(SharedHeapTest, PiecesAreZerosAndDoNotOverlap) {
  const auto first = heap_->allocate(0, 3 * page);
  const auto second = heap_->allocate(0, 1);
  const auto other = heap_->allocate(1, page);
  std::memset(first.get(), 1, 3 * page);
  EXPECT_EQ(second.get()[0], std::byte{0});
  std::memset(second.get(), 2, page);
  std::memset(other.get(), 3, page);
  EXPECT_EQ(first.get()[3 * page - 1], std::byte{1});
  EXPECT_EQ(second.get()[page - 1], std::byte{2});
}

// At another address, as in another process.
TEST_F(SharedHeapTest, IsTheSameMemoryInEachMapping) {
  const auto piece = heap_->allocate(1, page);
  std::memset(piece.get(), 7, page);
  const std::byte* const from_begin = heap_->at(0, 1);
  auto* const first_page =
      static_cast<std::byte*>(mremap(const_cast<std::byte*>(from_begin), 0, page, MREMAP_MAYMOVE));
  ASSERT_NE(static_cast<void*>(first_page), MAP_FAILED);
  const std::size_t part = heap_->offset_of(piece.get());
  const auto again = SharedHeap::map(first_page, 5, 2, part, why_);
  ASSERT_TRUE(again) << why_;
  const std::byte* const there = again->at(heap_->offset_of(piece.get()), page);
  ASSERT_NE(there, nullptr);
  EXPECT_NE(there, piece.get());
  EXPECT_EQ(there[page - 1], std::byte{7});
  munmap(first_page, page);
}

TEST_F(SharedHeapTest, AReturnedPieceHasNoMemoryAndIsZerosAgain) {
  auto piece = heap_->allocate(0, 8 * page);
  std::byte* const at = piece.get();
  std::memset(at, 9, 8 * page);
  EXPECT_EQ(resident(at, 8 * page), 8U);
  piece.reset();
  EXPECT_EQ(resident(at, 8 * page), 0U);
  piece = heap_->allocate(0, 8 * page);
  EXPECT_EQ(piece.get(), at);
  EXPECT_EQ(piece.get()[0], std::byte{0});
}

TEST_F(SharedHeapTest, ThePieceKeepsTheHeap) {
  const auto piece = heap_->allocate(0, page);
  heap_.reset();
  segment_.reset();
  std::memset(piece.get(), 4, page);
  EXPECT_TRUE(SharedHeap::containing({piece.get(), page}));
}

TEST_F(SharedHeapTest, IsFoundByBytesThatItContainsWhole) {
  const auto piece = heap_->allocate(0, page);
  EXPECT_EQ(SharedHeap::containing({piece.get() + 5, 7}), heap_);
  EXPECT_EQ(SharedHeap::containing({heap_->at(0, 1) - 1, 2}), nullptr);
  const std::string elsewhere = "elsewhere";
  EXPECT_EQ(SharedHeap::containing(std::as_bytes(std::span(elsewhere))), nullptr);
}

TEST_F(SharedHeapTest, OffsetsBeyondItsEndAreNotInIt) {
  constexpr std::size_t whole = 2 * shared::most_heap_part;
  EXPECT_NE(heap_->at(whole - 1, 1), nullptr);
  EXPECT_EQ(heap_->at(whole, 1), nullptr);
  EXPECT_EQ(heap_->at(whole - 1, 2), nullptr);
  EXPECT_EQ(heap_->at(~std::uint64_t{0}, 2), nullptr);
}

TEST_F(SharedHeapTest, MoreThanItsPartIsRefused) {
  EXPECT_EQ(heap_->allocate(0, shared::most_heap_part + 1), nullptr);
  EXPECT_EQ(heap_->allocate(0, ~std::size_t{0}), nullptr);
}

// What it would return there is not its memory.
TEST_F(SharedHeapTest, AForkedProcessEndsItWithoutHarm) {
  auto piece = heap_->allocate(0, page);
  std::memset(piece.get(), 6, page);
  const pid_t child = fork();
  if (child == 0) {
    piece.reset();
    heap_.reset();
    segment_.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(piece.get()[page - 1], std::byte{6});
}

}  // namespace
}  // namespace dlaunch::internal
