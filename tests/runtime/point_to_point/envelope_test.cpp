// Envelopes as they come from another process: any bytes.

#include "runtime/point_to_point/envelope.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace dlaunch::internal {
namespace {

std::optional<Envelope> parsed(const Envelope& envelope, std::size_t bytes_behind) {
  std::vector<std::byte> block(sizeof envelope + bytes_behind);
  std::memcpy(block.data(), &envelope, sizeof envelope);
  return parse_envelope(block);
}

TEST(Envelope, ComesBackAsItWas) {
  const Envelope sent{.kind = Envelope::Kind::eager,
                      .tag = Tag{1} << 40,
                      .dtype = DType::float32,
                      .is_last = 0,
                      .count = 5,
                      .number = 7,
                      .acknowledged = 3};
  const std::optional<Envelope> got = parsed(sent, 20);
  ASSERT_TRUE(got);
  EXPECT_EQ(std::memcmp(&*got, &sent, sizeof sent), 0);
  EXPECT_EQ(got->payload(), 20U);
  EXPECT_EQ(got->carried(), 20U);
}

TEST(Envelope, OnlySomeKindsCarryTheirMessage) {
  using Kind = Envelope::Kind;
  for (const Kind kind : {Kind::rts, Kind::cts, Kind::credit}) {
    const Envelope envelope{.kind = kind, .dtype = DType::float64, .count = 1'000'000'000};
    EXPECT_EQ(envelope.carried(), 0U);
    EXPECT_TRUE(parsed(envelope, 0)) << static_cast<int>(kind);
  }
  for (const Kind kind : {Kind::eager, Kind::data}) {
    const Envelope envelope{.kind = kind, .dtype = DType::float64, .count = 2};
    EXPECT_EQ(envelope.carried(), 16U);
    EXPECT_TRUE(parsed(envelope, 16));
    EXPECT_TRUE(parsed(envelope, 17));  // the next envelope's
    EXPECT_FALSE(parsed(envelope, 15)) << static_cast<int>(kind);
  }
}

TEST(Envelope, IsRejectedIfItIsNoneOfThisVersion) {
  const Envelope good{.count = 1};
  EXPECT_TRUE(parsed(good, 1));
  Envelope other = good;
  other.magic ^= 1U;
  EXPECT_FALSE(parsed(other, 1));
  Envelope dtype = good;
  dtype.dtype = static_cast<DType>(static_cast<int>(last_dtype) + 1);
  EXPECT_FALSE(parsed(dtype, 1000));
  dtype.dtype = last_dtype;
  EXPECT_TRUE(parsed(dtype, 1000));
  EXPECT_FALSE(parse_envelope({}));
  EXPECT_FALSE(parse_envelope(std::vector<std::byte>(sizeof(Envelope) - 1)));
}

// The length in bytes may overflow; the count must be judged first.
TEST(Envelope, IsRejectedIfItsMessageIsNotShort) {
  const auto with_count = [](std::uint64_t count, DType dtype) {
    return parsed({.dtype = dtype, .count = count}, short_message + 64).has_value();
  };
  EXPECT_TRUE(with_count(short_message, DType::uint8));
  EXPECT_FALSE(with_count(short_message + 1, DType::uint8));
  EXPECT_TRUE(with_count(short_message / 8, DType::float64));
  EXPECT_FALSE(with_count(short_message / 8 + 1, DType::float64));
  EXPECT_FALSE(with_count(std::uint64_t{1} << 61U, DType::float64));  // times 8: 0
  EXPECT_FALSE(with_count(std::numeric_limits<std::uint64_t>::max(), DType::complex128));
}

// Those of the collectives have bit 61 not set, and the transport's have bit 63 set.
TEST(Envelope, HasSlotsOfItsOwn) {
  std::set<std::uint64_t> slots = {envelope_slot};
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 60U) - 1}) {
    EXPECT_TRUE(slots.insert(data_slot(number)).second) << number;
  }
  for (const std::uint64_t slot : slots) EXPECT_EQ(slot >> 61U, 1U);
}

}  // namespace
}  // namespace dlaunch::internal
