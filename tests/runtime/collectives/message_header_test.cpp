// The header ahead of a message.

#include "runtime/collectives/message_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace dlaunch::internal {
namespace {

TEST(MessageHeader, EveryPartOfACallIsInItsHash) {
  const CollectiveFingerprint fingerprint{
      .kind = CollectiveKind::reduce, .dtype = DType::float32, .root = 1, .count = 10, .layout = 3};
  std::vector<std::uint64_t> hashes = {hash_of(fingerprint, 1), hash_of(fingerprint, 2)};
  const auto add = [&](auto change) {
    CollectiveFingerprint other = fingerprint;
    change(other);
    hashes.push_back(hash_of(other, 1));
  };
  add([](CollectiveFingerprint& c) { c.kind = CollectiveKind::gather; });
  add([](CollectiveFingerprint& c) { c.dtype = DType::int32; });
  add([](CollectiveFingerprint& c) { c.op = ReduceOp::max; });
  add([](CollectiveFingerprint& c) { c.root = 0; });
  add([](CollectiveFingerprint& c) { c.root = -1; });
  add([](CollectiveFingerprint& c) { c.count = 11; });
  add([](CollectiveFingerprint& c) { c.layout = 4; });
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
  EXPECT_EQ(hash_of(fingerprint, 1),
            hash_of(MessageHeader(fingerprint, 1, MessageHeader::Place::first, 0).fingerprint(), 1));
}

// Both ends read the same bytes, whatever compiler made them.
TEST(MessageHeader, HasItsBytesWhereOtherRanksExpectThem) {
  const CollectiveFingerprint call{.kind = CollectiveKind::scatter,
                                   .dtype = DType::float64,
                                   .op = ReduceOp::max,
                                   .root = -2,
                                   .count = 0x1122334455667788,
                                   .layout = 5};
  const MessageHeader header(call, 9, MessageHeader::Place::announced, 1000);
  std::vector<unsigned char> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  EXPECT_EQ(std::vector<unsigned char>(bytes.begin(), bytes.begin() + 12),
            (std::vector<unsigned char>{'D', 'L', 'X', '5', static_cast<unsigned char>(call.kind),
                                        static_cast<unsigned char>(call.dtype),
                                        static_cast<unsigned char>(call.op), 2, 0xfe, 0xff, 0xff, 0xff}));
  EXPECT_EQ(bytes[16], 0x88);
  EXPECT_EQ(bytes[23], 0x11);
  EXPECT_EQ(bytes[24], 5);  // layout
  EXPECT_EQ(bytes[32], 1000 % 256);
  EXPECT_EQ(bytes[40], 9);  // the call's number
  EXPECT_EQ(header.fingerprint(), call);
}

// Slots are 62 bits of the hash: neighbours in a sequence must not share them.
TEST(MessageHeader, HashesOfManyCallsDiffer) {
  std::vector<std::uint64_t> hashes;
  for (std::uint64_t number = 0; number < 20'000; ++number) {
    hashes.push_back(hash_of({.kind = CollectiveKind::barrier}, number) & ((std::uint64_t{1} << 62U) - 1));
  }
  std::ranges::sort(hashes);
  EXPECT_EQ(std::ranges::adjacent_find(hashes), hashes.end());
}

}  // namespace
}  // namespace dlaunch::internal
