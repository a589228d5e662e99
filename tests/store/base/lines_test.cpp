#include "store/base/lines.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace dlaunch::store {
namespace {

class Lines {
 public:
  void add(std::string_view piece) { lines_.cut(piece, take()); }
  void finish() { lines_.finish(take()); }
  std::string out;

 private:
  std::function<void(std::string_view, std::string_view)> take() {
    return [this](std::string_view beginning, std::string_view rest) { out.append(beginning).append(rest); };
  }
  LineSplitter lines_;
};

TEST(LineSplitter, GivesOnlyWholeLines) {
  Lines lines;
  lines.add("one\ntw");
  EXPECT_EQ(lines.out, "one\n");
  lines.add("o");
  EXPECT_EQ(lines.out, "one\n");
  lines.add("\nthree");
  EXPECT_EQ(lines.out, "one\ntwo\n");
  lines.finish();
  EXPECT_EQ(lines.out, "one\ntwo\nthree\n");
  lines.finish();
  EXPECT_EQ(lines.out, "one\ntwo\nthree\n");
}

TEST(LineSplitter, ACarriageReturnEndsALineSoThatProgressBarsMove) {
  Lines lines;
  lines.add("10%\r20%");
  EXPECT_EQ(lines.out, "10%\r");
}

TEST(LineSplitter, BreaksALineThatNeverEndsButNoCharacter) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    Lines lines;
    std::string text(shift, 'x');
    while (text.size() < LineSplitter::longest_line + 10) text += "\xf0\x9f\x9a\x80";  // four bytes each
    for (std::size_t at = 0; at < text.size(); at += 1000) lines.add(std::string_view(text).substr(at, 1000));
    lines.finish();
    const std::size_t broken = lines.out.find('\n');
    ASSERT_NE(broken, std::string::npos);
    EXPECT_EQ((broken - shift) % 4, 0U) << "in the middle of a character";
    std::erase(lines.out, '\n');
    EXPECT_EQ(lines.out, text);
  }
}

TEST(LineSplitter, LosesNothingHoweverTheStreamIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Lines lines;
    std::string text;
    for (auto i = random() % 300; i > 0; --i) text += "ab\r\n\xc3\xa4"[random() % 6];
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random() % 20;
      lines.add(std::string_view(text).substr(at, size));
      EXPECT_TRUE(lines.out.empty() || lines.out.back() == '\n' || lines.out.back() == '\r');
      at += size;
    }
    lines.finish();
    if (!text.empty() && text.back() != '\n' && text.back() != '\r') text += '\n';
    EXPECT_EQ(lines.out, text);
  }
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
}  // namespace dlaunch::store
