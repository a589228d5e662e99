#include "agent/control/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/agent/control/example_messages.h"

namespace dlaunch::agent {
namespace {

TEST(Messages, AreThoseOfTheManualPage) {
  std::ifstream file(DLAUNCH_SOURCE_DIR "/man/dlaunch-protocol.7");
  std::stringstream page;
  page << file.rdbuf();
  const std::vector<std::string> names{
      "Join",      "Heartbeat",      "Welcome",        "Failed",        "Done",
      "Stopped",   "Leave",          "Refused",        "NewWorld",      "StopRound",
      "End",       "Hello",          "Challenge",      "Proof",         "Progress",
      "Notice",    "RestartHistory", "Preempt",        "Ask",           "StackRequest",
      "PmiEnter",  "PmiRelease",     "RanksRequest",   "RanksReport",   "InspectionRequest",
      "Inspected", "TimesReport",    "ArrivalsReport", "LatenessReport"};
  const auto messages = one_of_each();
  ASSERT_EQ(messages.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int kind = static_cast<unsigned char>(encode(messages[i])[sizeof(std::uint32_t)]);
    const std::string entry = names[i] + " \" (" + std::to_string(kind) + ")";
    EXPECT_NE(page.str().find(entry), std::string::npos) << entry;
  }
  EXPECT_NE(page.str().find("protocol's version (" + std::to_string(protocol_version) + ")"),
            std::string::npos);
}

FrameReader coordinator_reader() { return FrameReader::from_coordinator(); }

TEST(Messages, EveryKindSurvivesTheWireByteByByte) {
  for (const Message& message : one_of_each()) {
    FrameReader reader = coordinator_reader();
    const std::string frame = encode(message);
    for (std::size_t i = 0; i < frame.size(); ++i) {
      auto early = reader.next();
      ASSERT_TRUE(early.ok());
      ASSERT_FALSE(early->has_value()) << "after " << i << " bytes";
      reader.append(as_byte_span(std::string_view(frame).substr(i, 1)));
    }
    auto whole = reader.next();
    ASSERT_TRUE(whole.ok());
    ASSERT_TRUE(whole->has_value());
    EXPECT_EQ(**whole, message);
  }
}

TEST(Messages, AMemberMustGreetAsThisVersionDoes) {
  FrameReader reader = FrameReader::from_member();
  std::string wrong(greeting);
  wrong.back() = 1;
  reader.append(as_byte_span(wrong));
  EXPECT_FALSE(reader.next().ok());

  FrameReader good = FrameReader::from_member();
  good.append(as_byte_span(greeting));
  good.append(as_byte_span(encode(Done{1})));
  auto message = good.next();
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(**message, Message(Done{1}));
}

TEST(Messages, ATooLongFrameIsRefusedBeforeItArrives) {
  FrameReader reader = coordinator_reader();
  reader.append(as_byte_span(encode(Done{1})));
  ASSERT_TRUE(reader.next().ok());
  reader.append(as_byte_span("\xff\xff\xff\xff"));
  auto refused = reader.next();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message(), "malformed agent message: a frame of 4294967295 bytes is too long");
}

TEST(Messages, OtherProtocolIsRecognized) {
  FrameReader reader = coordinator_reader();
  reader.append(as_byte_span("HTTP/1.1 400 Bad Request\r\nServer: x\r\n"));
  auto refused = reader.next();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::refused);
  EXPECT_TRUE(refused.error().message().starts_with("the peer is not dlaunch: it begins with 'HTTP/1.1 400"))
      << refused.error().message();
}

TEST(Messages, ProgressOfANodeFitsAFrame) {
  Progress progress;
  for (std::size_t i = 0; i < Progress::max_groups + 5; ++i) {
    GroupProgress group{i, std::string(48, 'x'), 1 << 20, {}, {}};
    group.ranks.assign(page::max_runs, {0, 1, 1});
    RankProgress called;
    called.call_site = std::string(170, 'x');  // the longest that a page can have
    group.here.assign(100, called);
    progress.groups.push_back(group);
  }
  progress = bounded(std::move(progress));
  const std::string frame = encode(progress);
  EXPECT_LT(frame.size(), max_frame_from_member);
  const auto again = decode(as_byte_span(frame).subspan(4));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, Message(progress));
  std::size_t rows = 0;
  for (const GroupProgress& group : progress.groups) rows += group.here.size();
  EXPECT_EQ(rows, Progress::max_rows);
  const auto called = [](const RankProgress& rank) { return !rank.call_site.empty(); };
  std::size_t call_sites = 0;
  for (const GroupProgress& group : progress.groups)
    call_sites += static_cast<std::size_t>(std::ranges::count_if(group.here, called));
  EXPECT_EQ(call_sites, Progress::max_call_sites);
}

TEST(Messages, MoreThanAnOutcomeMayTellIsRefused) {
  Outcome outcome;
  outcome.others.assign(Outcome::max_others + 1, a_failure());
  EXPECT_FALSE(decode(as_byte_span(encode(End{outcome}).substr(4))).ok());
  outcome.others.clear();
  outcome.restarts.assign(Outcome::max_restarts + 1, {});
  EXPECT_FALSE(decode(as_byte_span(encode(End{outcome}).substr(4))).ok());
}

TEST(Messages, EveryTruncationAndExtensionOfABodyIsRefused) {
  for (const Message& message : one_of_each()) {
    const std::string body = encode(message).substr(4);
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_FALSE(decode(as_byte_span(std::string_view(body).substr(0, size))).ok());
    EXPECT_FALSE(decode(as_byte_span(body + "x")).ok());
  }
}

TEST(Messages, RandomBytesNeverDoHarm) {
  std::mt19937 random(42);
  const auto messages = one_of_each();
  for (int i = 0; i < 20'000; ++i) {
    std::string body = encode(messages[random() % messages.size()]).substr(4);
    for (unsigned flips = random() % 8 + 1; flips > 0; --flips)
      body[random() % body.size()] = static_cast<char>(random());
    auto decoded = decode(as_byte_span(body));
    // What decodes must encode again to what was read.
    if (decoded) {
      EXPECT_EQ(encode(*decoded).substr(4), body);
    }
  }
}

}  // namespace
}  // namespace dlaunch::agent
