#include "launcher/remote/remote_protocol.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dlaunch::launcher {
namespace {

using Kind = AgentMessage::Kind;

// "noise:...", "output:...", "end:..." one after the other.
std::string parts(AgentStream& stream, const std::string& lines) {
  std::string out;
  for (const StreamPart& part : stream.take(lines)) {
    if (part.kind == StreamPart::Kind::noise) out.append("noise:").append(part.text);
    if (part.kind == StreamPart::Kind::output) out.append("output:").append(part.text);
    if (part.kind == StreamPart::Kind::message)
      out.append("message:" + std::to_string(static_cast<int>(part.message.kind)) + part.message.text + "\n");
  }
  return out;
}

TEST(RemoteProtocol, OutputBeforeReadyIsNoise) {
  AgentStream stream("k1");
  EXPECT_EQ(parts(stream, "motd\n"), "noise:motd\n");
  EXPECT_FALSE(stream.ready());
  EXPECT_EQ(parts(stream, "more\n" + to_line("k1", {Kind::ready, "0.1"}) + "first\nsecond\n"),
            "noise:more\nmessage:00.1\noutput:first\nsecond\n");
  EXPECT_TRUE(stream.ready());
  EXPECT_EQ(parts(stream, "a\n" + to_line("k1", {Kind::end, "3"}) + "b\n"),
            "output:a\nmessage:33\noutput:b\n");
}

TEST(RemoteProtocol, OnlyItsOwnMarkAtTheBeginningOfALineCounts) {
  AgentStream stream("k1");
  parts(stream, to_line("k1", {Kind::ready, ""}));
  const std::string of_another = to_line("k12", {Kind::end, "9"});
  EXPECT_EQ(parts(stream, of_another), "output:" + of_another);
  const std::string inside = "x" + to_line("k1", {Kind::end, "9"});
  EXPECT_EQ(parts(stream, inside), "output:" + inside);
  EXPECT_EQ(parts(stream, "50 %\r" + to_line("k1", {Kind::end, "9"})), "output:50 %\rmessage:39\n");
  // A message of a later version is ignored, and is not output either.
  EXPECT_EQ(parts(stream, "\x1ek1 tomorrow x\na\n"), "output:a\n");
}

TEST(RemoteProtocol, TextsOfSeveralLinesStayWhole) {
  const std::string text = "a\nb\\n\r\\c\n";
  AgentStream stream("k");
  const std::string line = to_line("k", {Kind::report, text});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\r'), std::string::npos);
  const auto taken = stream.take(line);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].message, (AgentMessage{Kind::report, text}));
}

TEST(RemoteProtocol, SignalsComeInAnyPieces) {
  LifelineReader reader;
  EXPECT_EQ(reader.take("alive\nsig"), std::vector<int>{});
  EXPECT_EQ(reader.take("nal 15\n" + signal_line(SIGINT) + "signal"), (std::vector<int>{SIGTERM, SIGINT}));
  EXPECT_EQ(reader.take(" 0\nsignal 99\nsignal x\nsignal 2x\nsignal -2\n" + std::string(100, 'x')),
            std::vector<int>{});
  EXPECT_EQ(reader.take("signal 2\nsignal 10\n"), std::vector<int>{SIGUSR1});
}

}  // namespace
}  // namespace dlaunch::launcher
