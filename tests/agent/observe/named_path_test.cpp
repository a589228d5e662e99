#include "agent/observe/named_path.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

std::string missing(std::string_view lines) { return path_in_error(lines, "No such file or directory"); }

TEST(NamedPath, StandsBeforeTheReasonInMessagesOfPrograms) {
  EXPECT_EQ(missing("train: cannot read /data/train: No such file or directory\n"), "/data/train");
  EXPECT_EQ(missing("cat: 'a dir/b': No such file or directory"), "a dir/b");
  EXPECT_EQ(missing("ls: cannot access `a/b': No such file or directory"), "a/b");
  EXPECT_EQ(missing("first: ./a: No such file or directory\nthen: ./b: No such file or directory"), "./b");
}

TEST(NamedPath, StandsBehindItInPythons) {
  EXPECT_EQ(missing("FileNotFoundError: [Errno 2] No such file or directory: '/data/x y'\n"), "/data/x y");
  EXPECT_EQ(missing("FileNotFoundError: [Errno 2] No such file or directory: '/a' -> '/b'"), "/a");
}

TEST(NamedPath, IsNotGuessed) {
  EXPECT_EQ(missing(""), "");
  EXPECT_EQ(missing("No such file or directory"), "");
  EXPECT_EQ(missing("train: No such file or directory"), "") << "a program's name";
  EXPECT_EQ(missing("x: No such file or directory: '/a"), "") << "a cut line";
  EXPECT_EQ(missing("cannot read /a\x1b[2J: No such file or directory"), "");
  EXPECT_EQ(missing("': No such file or directory"), "");
  EXPECT_EQ(missing("cannot read /a: Permission denied"), "");
}

}  // namespace
}  // namespace dlaunch::agent
