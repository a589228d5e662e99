#include "launcher/commands/pickle.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

namespace dlaunch::launcher {
namespace {

using Json = nlohmann::ordered_json;

// Protocol 2, the value, the end.
std::string value_of(const Json& json) {
  const std::string text = pickled(json);
  EXPECT_TRUE(text.starts_with("\x80\x02") && text.ends_with('.')) << text;
  return text.substr(2, text.size() - 3);
}

std::string bytes(std::string_view text) { return std::string(text); }

TEST(Pickle, Scalars) {
  EXPECT_EQ(value_of(nullptr), "N");
  EXPECT_EQ(value_of(true), "\x88");
  EXPECT_EQ(value_of(false), "\x89");
  EXPECT_EQ(value_of(1.5), bytes({"G\x3f\xf8\0\0\0\0\0\0", 9}));
  EXPECT_EQ(value_of("ab"), bytes({"X\2\0\0\0ab", 7}));
}

TEST(Pickle, IntegersOfEverySize) {
  EXPECT_EQ(value_of(-2), "J\xfe\xff\xff\xff");
  EXPECT_EQ(value_of(INT32_MAX), "J\xff\xff\xff\x7f");
  EXPECT_EQ(value_of(std::int64_t{1} << 40), bytes({"\x8a\x08\0\0\0\0\0\1\0\0", 10}));
  EXPECT_EQ(value_of(UINT64_MAX), bytes({"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0", 11}))
      << "a ninth byte for the sign";
}

TEST(Pickle, ListsAndDictsKeepTheirOrder) {
  EXPECT_EQ(value_of(Json::array()), "]");
  EXPECT_EQ(value_of(Json::object()), "}");
  EXPECT_EQ(value_of(Json::array({true, Json::array()})), "](\x88]e");
  EXPECT_EQ(value_of(Json{{"b", true}, {"a", nullptr}}), bytes({"}(X\1\0\0\0b\x88X\1\0\0\0aNu", 17}));
}

TEST(Pickle, InvalidUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(value_of("\xff"), bytes({"X\3\0\0\0\xef\xbf\xbd", 8}));
}

}  // namespace
}  // namespace dlaunch::launcher
