#include "runtime/shared_memory/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace dlaunch::internal {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// Around the lengths at which another way is taken, from and to any place in a vector's width.
TEST(Copy, CopiesEveryByteAndNoOther) {
  constexpr std::size_t widest = 32;
  const std::vector<std::byte> source = pattern(8192);
  for (const std::size_t size : {0U, 1U, 127U, 2047U, 2048U, 2049U, 2175U, 2176U, 4096U, 5001U}) {
    for (const std::size_t at : {0U, 1U, 17U, 31U}) {
      std::vector<std::byte> target(size + 2 * widest, std::byte{0xee});
      copy(target.data() + at, std::span(source).subspan(widest - at, size));
      EXPECT_EQ(std::memcmp(target.data() + at, source.data() + widest - at, size), 0)
          << size << " at " << at;
      for (std::size_t i = 0; i < target.size(); ++i) {
        const bool is_outside = i < at || i >= at + size;
        ASSERT_TRUE(!is_outside || target[i] == std::byte{0xee}) << size << " at " << at;
      }
    }
  }
}

TEST(Copy, BytesThatOverlapArriveAsTheyWere) {
  const std::vector<std::byte> before = pattern(8192);
  for (const std::ptrdiff_t shift : {-3000, -100, -1, 0, 1, 100, 3000}) {
    std::vector<std::byte> bytes = before;
    copy(bytes.data() + 3000 + shift, std::span(bytes).subspan(3000, 2100));
    EXPECT_EQ(std::memcmp(bytes.data() + 3000 + shift, before.data() + 3000, 2100), 0) << shift;
  }
}

TEST(Copy, NothingMayBeNowhere) { copy(nullptr, {}); }

}  // namespace
}  // namespace dlaunch::internal
