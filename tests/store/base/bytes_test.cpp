#include "store/base/bytes.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(Bytes, AreReadAsTheyAreWritten) {
  std::string bytes;
  ByteWriter(bytes).u8(1).u32(0x04030201).u64(UINT64_MAX).i64(-2).text("abc").integer<std::int16_t>(-1);
  EXPECT_EQ(bytes.substr(1, 4), "\x01\x02\x03\x04") << "little-endian";
  ByteReader reader(as_byte_span(bytes));
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u32(), 0x04030201U);
  EXPECT_EQ(reader.u64(), UINT64_MAX);
  EXPECT_EQ(reader.i64(), -2);
  EXPECT_EQ(reader.text(3), "abc");
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.integer<std::int16_t>(), -1);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.consumed(), bytes.size());
}

TEST(Bytes, AReadBeyondTheEndSpoilsAllLaterOnes) {
  const std::string bytes(5, '\1');
  ByteReader reader(as_byte_span(bytes));
  EXPECT_EQ(reader.u64(), 0U);
  EXPECT_TRUE(reader.ran_short());
  EXPECT_EQ(reader.u8(), 0) << "though a byte is there";
  EXPECT_EQ(reader.left(), 5U);
  EXPECT_FALSE(reader.ok());
  EXPECT_FALSE(reader.done());
}

TEST(Bytes, ALengthOverTheLimitIsNotMissingBytes) {
  std::string bytes;
  ByteWriter(bytes).u64(4).text("");
  bytes += "abcd";
  ByteReader within(as_byte_span(bytes));
  EXPECT_EQ(within.text(4).size(), 4U);
  ByteReader over(as_byte_span(bytes));
  EXPECT_EQ(over.text(3), "");
  EXPECT_TRUE(over.over_limit());
  EXPECT_FALSE(over.ran_short()) << "more bytes would not help";
  EXPECT_EQ(over.u8(), 0);
}

TEST(Bytes, AnAnnouncedLengthAllocatesNothing) {
  std::string bytes;
  ByteWriter(bytes).u64(UINT64_MAX);
  ByteReader reader(as_byte_span(bytes));
  EXPECT_EQ(reader.text(UINT64_MAX), "");
  EXPECT_TRUE(reader.ran_short());
}

TEST(Bytes, AViewPointsIntoTheSpan) {
  std::string bytes;
  ByteWriter(bytes).text("abc");
  ByteReader reader(as_byte_span(bytes));
  EXPECT_EQ(reader.text(10).data(), bytes.data() + 8);
}

}  // namespace
}  // namespace dlaunch::store
