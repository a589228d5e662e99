#include "agent/pmi/pmi_request.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(PmiRequestTest, ALineIsACommandAndItsValues) {
  const auto put = PmiRequest::parse("cmd=put kvsname=k key=a value=b=c");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->command(), "put");
  EXPECT_EQ(put->value("key"), "a");
  EXPECT_EQ(put->value("value"), "b=c");
  EXPECT_EQ(put->value("cmd"), std::nullopt) << "the command is no value";
  EXPECT_EQ(put->value("none"), std::nullopt);
  EXPECT_FALSE(put->is_of_many_lines());
  EXPECT_TRUE(PmiRequest::parse("mcmd=spawn")->is_of_many_lines());
}

TEST(PmiRequestTest, WordsWithoutASignBelongToTheValueBefore) {
  EXPECT_EQ(PmiRequest::parse("cmd=abort message=it is  over exitcode=3")->value("message"), "it is over");
}

TEST(PmiRequestTest, WhatIsNoRequestIsRejected) {
  for (const char* line : {"", " ", "cmd", "=", "=x cmd=a", "key=a cmd=put", "cmd=put key=\t",
                           "GET / HTTP/1.1", "cmd=put value=\xC3\xA4"}) {
    EXPECT_FALSE(PmiRequest::parse(line)) << line;
  }
}

std::string cut(PmiLines& lines, std::string_view piece) {
  std::string got;
  const bool fits = lines.cut(piece, [&](std::string_view line) {
    got.append("[").append(line).append("]");
    return line != "last";
  });
  return fits ? got : got + "too long";
}

TEST(PmiLinesTest, ALineComesInPiecesOrWithOthers) {
  PmiLines lines;
  EXPECT_EQ(cut(lines, "cmd="), "");
  EXPECT_EQ(cut(lines, "init\ncmd=a\ncm"), "[cmd=init][cmd=a]");
  EXPECT_EQ(cut(lines, "d=b\n\n"), "[cmd=b][]");
}

TEST(PmiLinesTest, NothingIsTakenAfterTheLastOne) {
  PmiLines lines;
  EXPECT_EQ(cut(lines, "a\nlast\nb\n" + std::string(longest_pmi_line, 'x')), "[a][last]");
}

TEST(PmiLinesTest, ALineThatIsTooLongIsNotKept) {
  PmiLines whole;
  EXPECT_EQ(cut(whole, std::string(longest_pmi_line, 'x') + "\n"),
            "[" + std::string(longest_pmi_line, 'x') + "]");
  EXPECT_EQ(cut(whole, std::string(longest_pmi_line + 1, 'x') + "\n"), "too long");
  PmiLines begun;
  EXPECT_EQ(cut(begun, std::string(longest_pmi_line, 'x')), "");
  EXPECT_EQ(cut(begun, "x"), "too long");
}

}  // namespace
}  // namespace dlaunch::agent
