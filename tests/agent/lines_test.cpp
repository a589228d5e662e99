#include "agent/lines.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(LineSplitter, GivesOnlyWholeLines) {
  LineSplitter lines;
  std::string out;
  lines.add("one\ntw", out);
  EXPECT_EQ(out, "one\n");
  lines.add("o", out);
  EXPECT_EQ(out, "one\n");
  lines.add("\nthree", out);
  EXPECT_EQ(out, "one\ntwo\n");
  lines.finish(out);
  EXPECT_EQ(out, "one\ntwo\nthree\n");
  lines.finish(out);
  EXPECT_EQ(out, "one\ntwo\nthree\n");
}

TEST(LineSplitter, ACarriageReturnEndsALineSoThatProgressBarsMove) {
  LineSplitter lines;
  std::string out;
  lines.add("10%\r20%", out);
  EXPECT_EQ(out, "10%\r");
}

TEST(LineSplitter, BreaksALineThatNeverEnds) {
  LineSplitter lines;
  std::string out;
  const std::string piece(64 * 1024, 'x');
  for (int i = 0; i < 17; ++i) lines.add(piece, out);
  EXPECT_EQ(out.size(), LineSplitter::longest_line + 1);
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail;
  for (int i = 1; i <= 100; ++i) tail.add("line " + std::to_string(i) + "\n");
  const std::string text = tail.text();
  EXPECT_TRUE(text.starts_with("line 81\n")) << text;
  EXPECT_TRUE(text.ends_with("line 100")) << text;
}

TEST(Tail, IsBoundedAndFineWithLittle) {
  Tail tail;
  EXPECT_EQ(tail.text(), "");
  tail.add("no newline");
  EXPECT_EQ(tail.text(), "no newline");
  for (int i = 0; i < 1000; ++i) tail.add(std::string(1000, 'y'));
  EXPECT_LE(tail.text().size(), Tail::most_bytes);
}

}  // namespace
}  // namespace dlaunch::agent
