#include "store/base/sanitize.h"

#include <gtest/gtest.h>

#include <random>

namespace dlaunch::store {
namespace {

TEST(Printable, TerminalsAreNotDriven) {
  EXPECT_EQ(sanitize_for_terminal("\x1b[31;1mred\x1b[0m \x1b]0;title\x07text\x1b"), "red text");
  EXPECT_EQ(sanitize_for_terminal("a\x01z\x7f|\xc2\x9b\x33"), "a z | 3");
  EXPECT_EQ(sanitize_for_terminal("tab\there"), "tab\there");
}

TEST(Printable, TheDirectionOfALineIsNotTurned) {
  EXPECT_EQ(sanitize_for_terminal("a\u202Eb\u2066c\u200Fd\u061Ce"), "a b c d e");
  EXPECT_EQ(sanitize_for_terminal("a\u2028b\uFEFFc\u200Bd\U000E0041e\u0085f", true), "a b c d e f");
  const std::string joined = "\u0646\u200C\u0645 \U0001F469\u200D\U0001F4BB \u20AC";
  EXPECT_EQ(sanitize_for_terminal(joined), joined);
}

TEST(Printable, NewlinesStayOnRequest) {
  EXPECT_EQ(sanitize_for_terminal("a\nb", true), "a\nb");
  EXPECT_EQ(sanitize_for_terminal("a\nb"), "a b");
  EXPECT_EQ(sanitize_for_terminal("a\r\nb\r\n", true), "a\nb\n");
}

TEST(Printable, OfAProgressBarTheLastStateStays) {
  EXPECT_EQ(sanitize_for_terminal("first\n10%\r20%\r30%\nnext", true), "first\n30%\nnext");
}

TEST(Printable, InvalidUtf8BecomesQuestionMarks) {
  EXPECT_EQ(sanitize_for_terminal("\xff\xfe gr\xc3\xbc\xc3\x9f \xe2\x82"), "?? gr\xc3\xbc\xc3\x9f ??");
  EXPECT_EQ(sanitize_for_terminal("\xc0\x80 \xed\xa0\x80 \xf0\x9f\x98\x80"), "?? ??? \xf0\x9f\x98\x80");
}

TEST(Printable, RandomBytesBecomeTextThatStaysAsItIs) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(random() % 40, ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    const std::string once = sanitize_for_terminal(bytes, true);
    EXPECT_EQ(sanitize_for_terminal(once, true), once);
    EXPECT_EQ(once.find('\x1b'), std::string::npos);
  }
}

TEST(Shortened, IsCutBetweenCharacters) {
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(shortened("abcdefg", 6), "abc...");
  EXPECT_EQ(shortened("ab\xc3\xbc"
                      "defg",
                      6),
            "ab...");
}

}  // namespace
}  // namespace dlaunch::store
