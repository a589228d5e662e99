#include "store/base/hmac.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    out += digits[static_cast<unsigned char>(c) >> 4];
    out += digits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

TEST(Hmac, IsThatOfRfc4231) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, 0x0b), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Secrets, AreEqualOnlyIfAllBytesAre) {
  EXPECT_TRUE(are_equal_secrets("", ""));
  EXPECT_TRUE(are_equal_secrets("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "Abc", "abcd"}) EXPECT_FALSE(are_equal_secrets("abc", other));
}

}  // namespace
}  // namespace dlaunch::store
