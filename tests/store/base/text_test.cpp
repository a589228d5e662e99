#include "store/base/text.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace dlaunch::store {
namespace {

TEST(Text, JoinsAnyRange) {
  EXPECT_EQ(join(std::vector<std::string>{"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join(std::set<std::string>{"b", "a"}, " or "), "a or b");
  EXPECT_EQ(join(std::vector<std::string>{"", "x", ""}, ","), ",x,") << "empty words count";
  EXPECT_EQ(join(std::vector<std::string_view>{}, ", "), "");
}

TEST(Text, QuotesForMessages) {
  EXPECT_EQ(quoted("key"), "'key'");
  EXPECT_EQ(quoted(""), "''");
}

TEST(Text, LowersOnlyAsciiLetters) { EXPECT_EQ(lower("Warning: \xc3\x84 Z[@9"), "warning: \xc3\x84 z[@9"); }

TEST(Text, CountsThings) {
  EXPECT_EQ(pluralize(0, "node"), "0 nodes");
  EXPECT_EQ(pluralize(1, "node"), "1 node");
  EXPECT_EQ(pluralize(2U, "more node"), "2 more nodes");
}

TEST(Text, AShortListNamesTheFirst) {
  ShortList list;
  EXPECT_EQ(list.text(), "");
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) list.add(name);
  EXPECT_EQ(list.text(), "a, b, c, d, e, f, g, h");
  list.add("i");
  list.add("j");
  EXPECT_EQ(list.text(), "a, b, c, d, e, f, g, h and 2 more");
  EXPECT_EQ(list.count(), 10);
}

}  // namespace
}  // namespace dlaunch::store
