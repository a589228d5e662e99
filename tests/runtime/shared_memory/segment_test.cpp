#include "runtime/shared_memory/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

namespace dlaunch::internal {
namespace {

class SegmentTest : public testing::Test {
 protected:
  void SetUp() override {
    fd_ = Segment::make_file(3, why_);
    ASSERT_GE(fd_, 0) << why_;
  }
  void TearDown() override { close(fd_); }

  int fd_ = -1;
  std::string why_;
};

TEST_F(SegmentTest, IsOneObjectInAProcess) {
  const std::shared_ptr<Segment> first = Segment::map(fd_, 3, why_);
  ASSERT_TRUE(first) << why_;
  EXPECT_EQ(Segment::map(fd_, 3, why_), first);
  EXPECT_EQ(first->ranks(), 3U);
}

TEST_F(SegmentTest, TheSizeOfItsFileCannotChange) {
  EXPECT_NE(ftruncate(fd_, 0), 0);
  EXPECT_NE(ftruncate(fd_, off_t{1} << 30U), 0);
}

TEST_F(SegmentTest, OfAnotherNumberOfRanksIsRejected) {
  EXPECT_FALSE(Segment::map(fd_, 2, why_));
  EXPECT_EQ(why_, "what it shares is not this version's memory of the group");
}

TEST_F(SegmentTest, AFileThatItsMakerCouldShrinkIsRejected) {
  const int other = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const std::size_t size = shared::file_size(3, 0);
  const shared::Header header{.magic = shared::magic, .ranks = 3, .identity = 1, .heap_part = 0};
  ASSERT_EQ(ftruncate(other, static_cast<off_t>(size)), 0);
  ASSERT_EQ(pwrite(other, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_FALSE(Segment::map(other, 3, why_));
  ASSERT_EQ(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(Segment::map(other, 3, why_)) << why_;
  close(other);
}

TEST_F(SegmentTest, WithoutRoomForAHeapItHasNone) {
  const int other = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const shared::Header header{.magic = shared::magic, .ranks = 3, .identity = 1, .heap_part = 0};
  ASSERT_EQ(ftruncate(other, static_cast<off_t>(shared::file_size(3, 0))), 0);
  ASSERT_EQ(pwrite(other, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  ASSERT_EQ(fcntl(other, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  const std::shared_ptr<Segment> segment = Segment::map(other, 3, why_);
  close(other);
  ASSERT_TRUE(segment) << why_;
  EXPECT_EQ(segment->heap(why_), nullptr);
  EXPECT_EQ(why_, "the limit on file sizes (ulimit -f) leaves no room for a heap");
}

TEST(Layout, AHeapFitsTheLimitOfFiles) {
  EXPECT_EQ(shared::heap_part_within(2, ~std::size_t{0}), shared::most_heap_part);
  EXPECT_EQ(shared::heap_part_within(256, ~std::size_t{0}), shared::most_heap / 256);
  EXPECT_EQ(shared::heap_part_within(3, shared::heap_at(3)), 0U);
  EXPECT_EQ(shared::heap_part_within(3, shared::heap_at(3) + 3 * shared::page_size + 1), shared::page_size);
}

TEST_F(SegmentTest, TooManyRanksAreRejected) {
  EXPECT_EQ(Segment::make_file(shared::most_ranks + 1, why_), -1);
  EXPECT_EQ(why_, "the group has more than 1024 ranks");
}

TEST_F(SegmentTest, DiscardedMemoryReadsAsZeros) {
  const std::shared_ptr<Segment> segment = Segment::map(fd_, 3, why_);
  ASSERT_TRUE(segment) << why_;
  std::byte* const area = segment->staging(2, 1);
  ASSERT_TRUE(populate(area, shared::page_size));
  std::memset(area, 5, shared::page_size);
  discard(area, shared::page_size);
  EXPECT_EQ(area[0], std::byte{0});
  EXPECT_EQ(area[shared::page_size - 1], std::byte{0});
}

}  // namespace
}  // namespace dlaunch::internal
