#include "launcher/flags/shell_words.h"

#include <gtest/gtest.h>

#include <random>

namespace dlaunch::launcher {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWords, OnlySpecialCharactersAreQuoted) {
  EXPECT_EQ(shell_quoted("train.py"), "train.py");
  EXPECT_EQ(shell_quoted("--lr=0.1,x@y:z_%+/-"), "--lr=0.1,x@y:z_%+/-");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("$HOME `x` \\ \n ~ *"), "'$HOME `x` \\ \n ~ *'");
  EXPECT_EQ(shell_quoted("~"), "'~'");
  EXPECT_EQ(quoted_line({"sh", "-c", "exit 1"}), "sh -c 'exit 1'");
}

TEST(ShellWords, AreSplitAsAPersonMeansThem) {
  EXPECT_EQ(*split_words("ssh -p 2222  -i\tkey"), (Words{"ssh", "-p", "2222", "-i", "key"}));
  EXPECT_EQ(*split_words("ssh -i 'my key' -o \"A B\""), (Words{"ssh", "-i", "my key", "-o", "A B"}));
  EXPECT_EQ(*split_words(R"(a\ b "c\"d\e" 'f\g' ''h)"), (Words{"a b", "c\"d\\e", "f\\g", "h"}));
  EXPECT_EQ(*split_words("''"), (Words{""}));
  EXPECT_EQ(*split_words("  "), Words{});
  EXPECT_FALSE(split_words("ssh -i 'key").ok());
  EXPECT_FALSE(split_words("ssh \"").ok());
}

TEST(ShellWords, QuotedWordsRoundTrip) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same words each time
  const std::string letters = "ab \t\n'\"\\$`*?[]{}()<>|&;!#~=%-\x01\x7f\xc3\xa9";
  for (int i = 0; i < 2000; ++i) {
    Words words(random() % 4);
    for (std::string& word : words) {
      for (unsigned n = random() % 8; n > 0; --n) word += letters[random() % letters.size()];
    }
    auto back = split_words(quoted_line(words));
    ASSERT_TRUE(back.ok()) << quoted_line(words);
    EXPECT_EQ(*back, words);
  }
}

}  // namespace
}  // namespace dlaunch::launcher
