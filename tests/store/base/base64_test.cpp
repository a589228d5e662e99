#include "store/base/base64.h"

#include <gtest/gtest.h>

#include <utility>

namespace dlaunch::store {
namespace {

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> cases[]{{"", ""},
                                                    {"f", "Zg=="},
                                                    {"fo", "Zm8="},
                                                    {"foo", "Zm9v"},
                                                    {"foob", "Zm9vYg=="},
                                                    {"fooba", "Zm9vYmE="},
                                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, RejectsTextThatIsNotBase64) {
  for (const char* wrong :
       {"Z", "Zg=", "Zg==Zg==", "Z===", "Zg=a", "Z g=", "====", "Zg==    ", "Zm9v\n", "Zm 9v Z g ==", "Zh=="})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

TEST(Base64, RestoresEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::string part = bytes.substr(bytes.size() - size);
    EXPECT_EQ(from_base64(to_base64(part)), part) << size;
  }
}

}  // namespace
}  // namespace dlaunch::store
