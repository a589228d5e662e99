#include "store/base/hex.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(Hex, EveryByteIsReadAsItIsWritten) {
  std::string all(256, '\0');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
  const std::string text = to_hex(all);
  EXPECT_EQ(text.substr(0, 4), "0001");
  EXPECT_EQ(text.substr(508), "feff");
  EXPECT_EQ(from_hex(text, 256), all);
}

TEST(Hex, OnlySoManyDigitsAreTaken) {
  EXPECT_EQ(from_hex("0a0b", 2), "\x0a\x0b");
  for (const char* wrong : {"", "0a", "0a0", "0a0b0", "0a0b0c", "0A0b", "0a0g", " a0b", "0x0b"})
    EXPECT_EQ(from_hex(wrong, 2), "") << wrong;
}

}  // namespace
}  // namespace dlaunch::store
