#include "launcher/flags/value_parsers.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Flags, ASizeMayHaveAUnitInAnyCase) {
  const auto size = [](const std::string& text) {
    return good({"--log-max-size=" + text, "x"}).log.max_bytes;
  };
  for (const char* text : {"10k", "10K", "10KiB", "10kib", "10240"}) EXPECT_EQ(size(text), 10U << 10) << text;
  EXPECT_EQ(size("1.5m"), 3U << 19);
  EXPECT_EQ(size("2g"), 2ULL << 30);
  EXPECT_EQ(size("1TiB"), 1ULL << 40);
}

TEST(ValueParsers, NumbersIncludeTheirLimits) {
  EXPECT_EQ(*number("n", "3", 3, 3), 3);
  EXPECT_EQ(*number("n", "-3", -3, 3), -3);
  EXPECT_EQ(number("n", "4", -3, 3).error().message(), "n: 4 is out of range; give a value from -3 to 3");
  for (const char* wrong : {"", " 3", "3 ", "+3", "0x3", "3.0", "3,0"})
    EXPECT_EQ(number("n", wrong, 0, 9).error().message(),
              "n: '" + std::string(wrong) + "' is not a number; see dlaunch --help");
  EXPECT_EQ(*whole_number("n", "9223372036854775807", 0, INT64_MAX), INT64_MAX);
  EXPECT_FALSE(whole_number("n", "9223372036854775808", 0, INT64_MAX).ok());
}

TEST(ValueParsers, TimesAreSecondsUpToAWeek) {
  EXPECT_EQ(*seconds("t", "0.25"), std::chrono::milliseconds(250));
  EXPECT_EQ(*seconds("t", "604800"), std::chrono::hours(168));
  for (const char* wrong : {"604801", "-0.1", "inf", "nan", "", "1s"})
    EXPECT_FALSE(seconds("t", wrong).ok()) << wrong;
  EXPECT_FALSE(positive_seconds("t", "0").ok());
  EXPECT_EQ(*positive_seconds("t", "2", std::chrono::seconds(2)), std::chrono::seconds(2));
  EXPECT_FALSE(positive_seconds("t", "2.5", std::chrono::seconds(2)).ok());
}

TEST(ValueParsers, AChoiceIsOneOfItsWords) {
  EXPECT_EQ(*choice("c", "node", {"node", "socket"}), "node");
  EXPECT_EQ(choice("c", "nod", {"node", "socket"}).error().message(),
            "c: 'nod' is not one of node, socket; did you mean node?");
  EXPECT_EQ(choice("c", "x", {"node", "socket"}).error().message(), "c: 'x' is not one of node, socket");
}

TEST(ValueParsers, WordsOfASwitchAreReadInAnyCase) {
  for (const char* on : {"1", "true", "YES", "On"}) EXPECT_EQ(switch_word(on), true) << on;
  for (const char* off : {"0", "False", "no", "OFF"}) EXPECT_EQ(switch_word(off), false) << off;
  for (const char* neither : {"", "2", "y", "true "})
    EXPECT_EQ(switch_word(neither), std::nullopt) << neither;
}

TEST(ValueParsers, ListsKeepEmptyParts) {
  EXPECT_TRUE(comma_list("").empty());
  EXPECT_EQ(comma_list("a,,b"), (Words{"a", "", "b"}));
  EXPECT_EQ(comma_list("a,"), (Words{"a", ""}));
  EXPECT_EQ(comma_list("a,,b", true), Words{"a,b"});
  EXPECT_EQ(comma_list("a,,,b", true), (Words{"a,", "b"}));
}

TEST(ValueParsers, ASizeIsAtLeastOneByteAndAtMostAPebibyte) {
  EXPECT_EQ(*byte_size("s", "1"), 1U);
  EXPECT_EQ(*byte_size("s", "1024T"), 1ULL << 50);
  for (const char* wrong : {"0", "0.5", "-1", "1025T", "", "K", "1KB", "1P", "nan", "1 K"})
    EXPECT_FALSE(byte_size("s", wrong).ok()) << wrong;
}

}  // namespace
}  // namespace dlaunch::launcher
